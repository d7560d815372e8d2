"""Runs a simulated fleet (``infra.lab.devices``) against a stack: finds the stack, judges the result, measures cost."""
