"""The client agent: everything that runs on a device.

It fetches and verifies recipes, decides for itself, tosses its own coin, randomises, and sends one anonymous
contribution. Nothing here reports back about refusals, coins or errors: those stay in the local journal.
"""
