"""The operations that every implementation of the protocol needs, as fast as this machine does them alone."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from infra.lab.bench.kernels import PRIMITIVES, FieldFloor
from infra.lab.bench.rows import Row, Subject, Timing, measured
from tacit.vdaf.native.library import chosen_level

BODY = 3072
OPENSSL = "openssl"
ROUNDS = 50
FSYNCS = 20


@dataclass(frozen=True)
class Primitives:
    """The timings of each primitive; ``field`` is those of the kernels' path, ``None`` if there are no kernels.

    ``fsync`` is wall time, all others are CPU time.
    """

    x25519: Timing
    aes_gcm: Timing
    rsa_verify: Timing
    fsync: Timing
    field: FieldFloor | None

    @classmethod
    def measure(cls, repetitions: int) -> Primitives:
        """Time each primitive ``repetitions`` times, in this process."""
        own, other = X25519PrivateKey.generate(), X25519PrivateKey.generate().public_key()
        cipher, body = AESGCM(bytes(16)), bytes(BODY)
        key = rsa.generate_private_key(65537, 2048)
        pss = padding.PSS(mgf=padding.MGF1(hashes.SHA384()), salt_length=48)
        signature, public = key.sign(body[:98], pss, hashes.SHA384()), key.public_key()
        usable = chosen_level()
        return cls(
            x25519=_often(lambda: own.exchange(other), repetitions),
            aes_gcm=_often(lambda: cipher.encrypt(bytes(12), body, None), repetitions),
            rsa_verify=_often(lambda: public.verify(signature, body[:98], pss, hashes.SHA384()), repetitions),
            fsync=_fsync(repetitions),
            field=None if usable is None else FieldFloor.of(usable, repetitions),
        )

    def rows(self) -> Iterator[Row]:
        """Yield one row per primitive, which is its own floor."""
        for name, timing in (
            ("X25519", self.x25519),
            ("AES-128-GCM, 3 KiB", self.aes_gcm),
            ("RSA-2048 PSS verify", self.rsa_verify),
        ):
            yield Subject("").row("primitive", name, OPENSSL, timing, floor_us=timing.micro)
        yield Subject("").row("primitive", "fsync of 4 KiB, wall time", "disk", self.fsync)
        if self.field is not None:
            for name in (PRIMITIVES[0], f"field128 {PRIMITIVES[1]}"):
                timing = self.field.timings[name]
                yield Subject("").row("primitive", name, "kernel", timing, floor_us=timing.micro)

    @property
    def hpke_open(self) -> float:
        """The floor of opening one sealed share, in microseconds: one key exchange and one decryption."""
        return self.x25519.micro + self.aes_gcm.micro


def _often(call: Callable[[], object], repetitions: int) -> Timing:
    def rounds() -> None:
        for _ in range(ROUNDS):
            call()

    return measured(rounds, ROUNDS, repetitions)


def _fsync(repetitions: int) -> Timing:
    times = []
    with tempfile.TemporaryFile("wb", buffering=0) as file:
        for _ in range(max(3, repetitions)):
            start = time.perf_counter()
            for _ in range(FSYNCS):
                file.write(bytes(4096))
                os.fsync(file.fileno())
            times.append((time.perf_counter() - start) / FSYNCS)
    return Timing.of(times)
