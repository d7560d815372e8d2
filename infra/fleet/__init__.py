"""Runs a simulated fleet (``client_agent.fleet``) against a stack: where it is, what it must come to, what it cost."""
