"""The life of a question, from its draft through the log to its releases."""
