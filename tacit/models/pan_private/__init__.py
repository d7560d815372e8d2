"""Model ``pan-private``: devices watch an event, and keep its state shared between two servers (P23)."""
