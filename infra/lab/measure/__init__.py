"""Points on the curves of the SA2 figures from runs of the pipeline itself (``tacit figures --measure``).

Only the devices and their data are simulated. Everything else is the product's code: coins and noise shares from the
operating system's randomness, sharding with proofs, verification and sums at both aggregators, the collector's opening
of the two sealed aggregate shares, and the estimate. What cannot change a sum is left out: tokens, OHTTP, and the
sealing of single reports.
"""
