"""A simulated fleet: very many devices that take part in one recipe over the real wire.

Every device has its own datum, its own coin from the operating system's randomness and its own line in the fleet's
journal. What a policy, a log and a recipe say is verified once, by the agent's own code, because it is the same for
all of them; everything after that is done per device, in batches.
"""
