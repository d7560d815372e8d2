"""Runs a simulated fleet (``infra.lab.devices``) against a stack: where the stack is, what the run must come to, what
it cost."""
