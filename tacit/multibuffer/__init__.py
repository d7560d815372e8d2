"""Public-key cryptography of many messages at once, in C with AVX2 or AVX-512 IFMA, with OpenSSL as fallback.

RSASSA-PSS verification of tokens and X25519 with the key schedule of HPKE, four or eight messages per instruction.
Where the processor, the compiler or TACIT_NATIVE do not allow it, and for every message that the kernels refuse,
OpenSSL does the work: the results are the same. ``crypto`` is what aggregators use, ``ohttp`` a gateway's part.
"""
