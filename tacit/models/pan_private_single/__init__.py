"""Model ``pan-private-single``: devices watch an event, and keep its state encrypted to one server (P24)."""
