"""The self-test of the multi-buffer kernels: known answers that they must give before they are used."""

from __future__ import annotations

import hashlib

from tacit import hpke
from tacit.multibuffer.interface import DerivedKeys, Multibuffer, Setup

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

# RFC 7748 section 5.2, the first pair and the second.
_SCALARS = (
    "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
    "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
)
_POINTS = (
    "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
    "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
)
_SECRETS = (
    "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
    "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957",
)

# RFC 9180 appendix A.1.1.
_INFO = bytes.fromhex("4f6465206f6e2061204772656369616e2055726e")
_EPHEMERAL = bytes.fromhex("52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736")
_ENC = bytes.fromhex("37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431")
_PRIVATE = bytes.fromhex("4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8")
_PUBLIC = bytes.fromhex("3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d")
_KEY = bytes.fromhex("4531685d41d65f03dc48f6b8302c05b0")
_NONCE = bytes.fromhex("56d890e5accaaf011cff4b7d")
_EXPORTER = bytes.fromhex("45ff1c2e220db587171952c0592d5f5ebe103f1561a2614e38f2ffd47e99e3f8")

_LANES = 17


def failed_answers(kernels: Multibuffer) -> list[str]:
    """Names of the operations whose answers are wrong."""
    tests = {"RSA": _rsa, "X25519": _x25519, "HPKE open": _hpke_open, "HPKE seal": _hpke_seal}
    return [name for name, passes in tests.items() if not passes(kernels)]


def _rsa(kernels: Multibuffer) -> bool:
    """Every lane holds a valid signature but three, which hold a changed one, one of another message and the
    modulus."""
    r_squared = pow(2, 2 * kernels.r_bits, int.from_bytes(_MODULUS, "big")).to_bytes(len(_MODULUS), "big")
    signatures, messages = [_SIGNATURE] * 9, [_MESSAGE] * 9
    signatures[1] = _SIGNATURE[:-1] + bytes((_SIGNATURE[-1] ^ 1,))
    messages[4] = b"another"
    signatures[6] = _MODULUS
    hashes = b"".join(hashlib.sha384(message).digest() for message in messages)
    verdicts = kernels.rsa_verify(_MODULUS, r_squared, b"".join(signatures), hashes)
    return verdicts == bytes((1, 0, 1, 1, 0, 1, 0, 1, 1))


def _x25519(kernels: Multibuffer) -> bool:
    """Both pairs alternately, and a point of low order last."""
    scalars, points, secrets = (
        b"".join(bytes.fromhex(values[i % 2]) for i in range(_LANES - 1)) for values in (_SCALARS, _POINTS, _SECRETS)
    )
    found = kernels.x25519(scalars + _PRIVATE, points + bytes(32))
    return found == (secrets + bytes(32), bytes(_LANES - 1) + b"\x01")


def _setup() -> Setup:
    suite = hpke.DEFAULT_SUITE
    return Setup(_PUBLIC, *hpke.key_schedule_context(suite, _INFO), suite.key_size)


def _hpke_open(kernels: Multibuffer) -> bool:
    made = kernels.hpke_open(_PRIVATE, _setup(), _ENC * _LANES, exporters=True)
    return _answers(made) == [_KEY * _LANES, _NONCE * _LANES, _EXPORTER * _LANES, bytes(_LANES)]


def _hpke_seal(kernels: Multibuffer) -> bool:
    encs, made = kernels.hpke_seal(_setup(), _EPHEMERAL * _LANES)
    return [encs, *_answers(made)] == [_ENC * _LANES, _KEY * _LANES, _NONCE * _LANES, b"", bytes(_LANES)]


def _answers(made: DerivedKeys) -> list[bytes]:
    return [bytes(rows) for rows in (made.keys, made.nonces, made.exporters, made.flags)]
