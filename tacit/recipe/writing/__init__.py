"""How a recipe is written: surveys, privacy targets, sampling plans, series."""
