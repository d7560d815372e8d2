"""What an operator can query, as typed results that a command prints and an interface can serve.

Nothing here depends on a terminal, a command or the folder of a stack: the caller says where the services are and which
tokens open their status pages. Every result has ``document()``, its JSON.
"""
