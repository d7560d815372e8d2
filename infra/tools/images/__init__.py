"""Container images: one for each trust domain, with that domain's code, its dependencies, and a bill of materials."""
