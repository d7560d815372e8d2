"""Counts in the shuffled model as a library: protocols, simulation, applications, and a checker of randomizers."""
