"""Container images: one for each trust domain, with that domain's code and what it needs, and a bill of materials."""
