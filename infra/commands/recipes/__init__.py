"""``tacit recipe`` and ``tacit series``: design, write, publish and follow recipes."""
