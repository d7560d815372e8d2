"""Local randomizers with their estimators: what a device does to its answer before anyone else sees it.

Each is pure (its randomness is an argument), samples from exact integer thresholds, and estimates counts of the whole
population with standard errors that account for sampling and for randomisation.
"""
