"""Everything that an operator can query, as typed results that a command can print and an interface can serve.

Nothing here depends on a terminal, a command or the folder of a stack: the caller gives the services' addresses and the
tokens for their status pages. ``document()`` returns the JSON of a result.
"""
