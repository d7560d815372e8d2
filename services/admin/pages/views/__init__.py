"""The views of the pages, one module per kind of page."""
