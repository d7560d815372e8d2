"""What a demo shows: its result documents, and how a terminal prints them."""
