"""Training runs: their plans and places, their rounds, and the stacks that they need."""
