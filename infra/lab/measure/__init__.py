"""Points on the curves of the SA2 figures from runs of the pipeline itself (``tacit figures --measure``).

What is simulated are the devices' data and their number. What runs is the product: coins and noise shares of the
operating system's randomness, sharding with proofs, both aggregators' verification and sums, the collector's opening of
the two sealed aggregate shares, and the estimate. Left out are what cannot change a sum: tokens, OHTTP, and the sealing
of single reports.
"""
