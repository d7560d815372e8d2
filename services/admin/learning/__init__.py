"""Training runs: drafted from a plan, carried from round to round, and shown."""
