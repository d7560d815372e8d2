"""Runs a simulated fleet (``infra.lab.devices``) against a stack: where it is, what it must come to, what it cost."""
