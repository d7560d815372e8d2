"""From flags to a survey, a recipe and a leaf of the log."""
