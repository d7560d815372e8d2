"""Local pan-privacy: device state that reveals nothing to an intruder on the device (``docs/pan-privacy.md``).

The state is kept encrypted under keys that the device does not have, and every step replaces all of it, whether or not
anything happened (Feldman, McMillan, Rothblum, Talwar: Local Pan-Privacy for Federated Analytics). The layers, from the
bottom up: a prime-order group (``group``), rerandomisable encryption (``elgamal``), sums in the exponent
(``discrete_logarithm``) and byte strings as group elements (``embedding``).
"""
