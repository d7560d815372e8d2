"""Parts that laboratory and tests share: simulated time, seeded randomness, networks with faults; well-formed recipes,
reports and bundles under published keys."""
