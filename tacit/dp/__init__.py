"""What a recipe costs in privacy: amplification by shuffling and by sampling, the claim, and its inverses.

Pure Python and ``math`` only, so that a device can recompute a claim without loading anything heavy. Every
function errs on the side of privacy: a returned delta or epsilon is an upper bound of the true one.

Symbols: ``epsilon0`` local epsilon of one report, ``n`` reports in a batch, ``delta`` the failure probability
of the claim, ``sampling_rate`` the probability that a device joins. Neighbouring relation throughout:
*replacement* (one device's value becomes another value) unless a function says otherwise.
"""
