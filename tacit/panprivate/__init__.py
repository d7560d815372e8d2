"""Local pan-privacy: device state that tells an intruder on the device nothing (``docs/pan-privacy.md``).

The state is kept encrypted under keys that the device does not have, and every step replaces all of it, whether or not
anything happened (Feldman, McMillan, Rothblum, Talwar: Local Pan-Privacy for Federated Analytics). From below to above:
a prime-order group (``group``), encryption that can be rerandomised (``elgamal``), sums in the exponent
(``discrete_logarithm``) and byte strings as group elements (``embedding``).
"""
