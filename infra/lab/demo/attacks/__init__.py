"""The attacks that a demo stages, each of which must be refused."""
