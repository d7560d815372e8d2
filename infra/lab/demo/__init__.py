"""``tacit demo``: the main job on real data, every party in one process over real loopback HTTP."""
