"""One module per group of ``tacit`` commands, imported only when it is used."""
