"""Pages of training runs: the form for a plan, and what a plan says and would cost."""
