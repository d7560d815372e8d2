"""The testing kit: simulated time, seeded randomness, networks with faults. Shipped, so that users test as
we do.
"""
