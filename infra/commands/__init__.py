"""One module per group of ``tacit`` commands; each is imported when it is used."""
