"""What each page shows, one module per kind of page."""
