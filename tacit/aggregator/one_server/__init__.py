"""What the servers of models without aggregators share (P24): taking reports, each once, and what is kept of them."""
