"""What laboratory and tests share: simulated time, seeded randomness, networks with faults, well-formed recipes, reports
and bundles, with keys that everybody knows."""
