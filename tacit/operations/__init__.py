"""What an operator may look at, as typed results that a command prints and an interface can serve.

Nothing here knows a terminal, a command or a folder of a stack: whoever asks says where the services are and which
tokens open their status pages. Every result has ``document()``, its JSON.
"""
