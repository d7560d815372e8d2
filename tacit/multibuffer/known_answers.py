"""The self-test of the multi-buffer kernels: what they must answer before they are used."""

from __future__ import annotations

import hashlib
from typing import Protocol

_MODULUS = bytes.fromhex(
    "c186b62baef8819f299dad082f0482f33b47979299c1e1e7bfa2ba53b2d573edf3beadf236c65dfc13e89fcaff49b4c7e8a2fc092f21468c"
    "32cbb1523c2edfe1e34d8447a79014c89648726b87aeca27ad80b76aa1b3185c055a2f4379ed946346e42c888c7290576ab29f6e0f595e59"
    "6555e6dd83fc005ad8744b944832550d6a814028ac0d394194a30623e0d4c4673613f32e46fc25299c7ee5ffa01cfe820de3be726488a882"
    "c3513894ef0da094c591a4bc1f1602097a3849116a86782405aab78fe0dc9d9246662d987a57debce37de20d82970c2466d635744e722859"
    "fecd07f1d6d4d86bedf98b979737a21ca1fcabb0ce6c4c3a280fcd69704fe27d"
)
_SIGNATURE = bytes.fromhex(
    "7f6d7ec1ca8526a52553b048c5a9bdbbc0415b2bebaabc747756f4eb4d31cb683ed8ab8c307550de032ddefaf37c60b9d6bcff4a2e9789cf"
    "f04ffd6f6b6802180447629c65d68a6894294d95c8f9c6381d0c5dd8089aae34e04bf8fe2723514e9d4bd0a2ee2c5003e9feda2c73f005cb"
    "55718871d1908228aeb672f1db642d99598797c4aa60abaf9e61d4efe509e9e76c34624867e1dde814eef391e1888d6da3cdc79795b5413a"
    "4a526884a1d3511c2ab7a8501d44ef98d7ed74a03086c7cc7324a368b71dfc11bc354c2340b8a9b309915faf2bdfe0418e374c9293a60107"
    "58e83a4d1eba0271365bcba8a810e4f35d0fc2a1da244aed8a6c8ae7ae991c7a"
)
_MESSAGE = b"known answer"


class Kernels(Protocol):
    """What is tested: ``tacit.multibuffer.library.Multibuffer``."""

    def rsa_verify(self, modulus: bytes, r_squared: bytes, signatures: bytes, hashes: bytes) -> bytes:
        """One byte per signature."""
        ...


def failed_answers(kernels: Kernels) -> list[str]:
    """Names of the operations whose answers are wrong."""
    return [name for name, passes in (("RSA", _rsa(kernels)),) if not passes]


def _rsa(kernels: Kernels) -> bool:
    """A valid signature in every lane but three, which hold a changed one, another message's and the modulus."""
    r_squared = pow(2, 4160, int.from_bytes(_MODULUS, "big")).to_bytes(len(_MODULUS), "big")
    signatures, messages = [_SIGNATURE] * 9, [_MESSAGE] * 9
    signatures[1] = _SIGNATURE[:-1] + bytes((_SIGNATURE[-1] ^ 1,))
    messages[4] = b"another"
    signatures[6] = _MODULUS
    hashes = b"".join(hashlib.sha384(message).digest() for message in messages)
    verdicts = kernels.rsa_verify(_MODULUS, r_squared, b"".join(signatures), hashes)
    return verdicts == bytes((1, 0, 1, 1, 0, 1, 0, 1, 1))
