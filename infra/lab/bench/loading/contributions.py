"""Valid contributions made in bulk, so that a measurement of the servers does not pay for their clients.

Tokens are signed directly with the slot's private key, which only the folder of a local stack reveals: no attester, no
blinding. Everything else is done as on a device: randomness of the operating system, VDAF shares, both seals, and the
OHTTP encapsulation.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from email.utils import formatdate
from multiprocessing import get_context
from typing import Any
from urllib.parse import urlsplit

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_der_private_key
from sqlalchemy import text

from infra.lab.devices.pool import end_with_parent
from infra.lab.devices.sealing import RequestSenders, seal_shares
from infra.stacks.layout import Layout
from services.issuer.config import IssuerConfig
from tacit import bhttp, ohttp
from tacit.adapters.databases.sql import engine_of
from tacit.codec import unb64url
from tacit.errors import UsageError
from tacit.hpke import SenderContext
from tacit.media_types import dap
from tacit.messages import REPORT_ID_SIZE, PlaintextInputShare, Report, ReportMetadata, UploadRequest
from tacit.recipe.derive import task_of
from tacit.recipe.model import Recipe
from tacit.roles import client
from tacit.service.base.config_files import load_config
from tacit.task import Task, input_share_aad
from tacit.tokens.binding import Preimages
from tacit.tokens.issuer_key import IssuerKey
from tacit.tokens.slots import Slot, slot_challenge
from tacit.tokens.structures import BLIND_RSA_2048, TOKEN_SIZE, Token, token_input
from tacit.vdaf.native.batch import BatchProver

CHUNK = 256
WORKERS = 4
_PSS = padding.PSS(mgf=padding.MGF1(hashes.SHA384()), salt_length=48)


@dataclass(frozen=True)
class Order:
    """What contributions are made from: a recipe, its slot's private key (PKCS#8 DER), and the gateway's key."""

    recipe: Recipe
    issuer_key: bytes = field(repr=False)
    gateway_key: str


@dataclass(frozen=True)
class Contribution:
    """One prepared contribution: the body of its upload, and the OHTTP message that carries it."""

    upload: bytes = field(repr=False)
    message: bytes = field(repr=False)


def prepare(order: Order, count: int, now: float, *, enclosed: bool = True) -> list[Contribution]:
    """Make ``count`` contributions dated ``now`` (POSIX seconds), in one process per processor, at most ``WORKERS``.

    Without ``enclosed`` their messages are empty, for uploads that bypass the gateway.
    """
    workers = min(WORKERS, os.cpu_count() or 1)
    sizes = [min(CHUNK, count - start) for start in range(0, count, CHUNK)]
    made: list[Contribution] = []
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=end_with_parent) as pool:
        for some in pool.map(_some, *zip(*((order, size, now, enclosed) for size in sizes), strict=True)):
            made += some
    return made


def make_reports(task: Task, key: RSAPrivateKey, measurements: Sequence[Any], time: int) -> list[Report]:
    """Make a report per measurement, each with a fresh token under ``key``; ``time`` in units of the task's
    precision."""
    press = TokenPress(key, task.slot)
    tokens = [press.press() for _ in measurements]
    metadata = [ReportMetadata(os.urandom(REPORT_ID_SIZE), time) for _ in measurements]
    rands = [os.urandom(task.vdaf.RAND_SIZE) for _ in measurements]
    sharded = BatchProver(task.vdaf, task.ctx).shard(measurements, [one.report_id for one in metadata], rands)
    public_shares = [public_share for public_share, _, _ in sharded]
    aads = [input_share_aad(task, *pair) for pair in zip(metadata, public_shares, strict=True)]
    sealed = []
    for place, role in enumerate(client.AGGREGATORS, start=1):
        extensions = [client.token_extension(*token, role) for token in tokens]
        shares = [
            PlaintextInputShare((extension,), shared[place]).encode()
            for extension, shared in zip(extensions, sharded, strict=True)
        ]
        sealed.append(seal_shares(task, role, list(zip(aads, shares, strict=True)), os.urandom))
    return list(map(Report, metadata, public_shares, *sealed))


def enclose(
    task: Task, upload: bytes, config: ohttp.KeyConfig, now: float, sender: SenderContext | None = None
) -> bytes:
    """Return the OHTTP message that carries the body of an upload, as a device sends it to the relay, under a fresh
    context: ``sender``, where many are set up at once."""
    target = urlsplit(task.configuration.leader_aggregator_endpoint)
    fields = (("date", formatdate(now // 60 * 60, usegmt=True)), ("content-type", dap("upload-req")))
    path = f"{target.path.rstrip('/')}/tasks/{task.task_id_text}/reports"
    request = bhttp.Request("POST", target.scheme, target.netloc, path, fields, upload)
    return ohttp.padded_request(config, request, os.urandom, sender)[0]


class TokenPress:
    """Makes tokens of one slot with the slot's private key."""

    def __init__(self, key: RSAPrivateKey, slot: Slot) -> None:
        self._key = key
        self._key_id = IssuerKey.from_private_key(key).token_key.token_key_id
        self._digest = slot_challenge(slot).digest()

    def press(self) -> tuple[bytes, Preimages]:
        """Return a fresh token (354 bytes) and the secrets behind its nonce."""
        preimages = Preimages.draw(os.urandom)
        message = token_input(BLIND_RSA_2048, preimages.nonce, self._digest, self._key_id)
        signature = self._key.sign(message, _PSS, hashes.SHA384())
        token = Token(preimages.nonce, self._digest, self._key_id, signature).encode()
        if len(token) != TOKEN_SIZE:
            raise ValueError("the slot's key does not give tokens of type 0x0002")
        return token, preimages


def private_key(der: bytes) -> RSAPrivateKey:
    """Decode a slot's private key. Raises ``UsageError`` if it is not an RSA key."""
    key = load_der_private_key(der, None)
    if not isinstance(key, RSAPrivateKey):
        raise UsageError("the issuer's database holds a key that is not an RSA key")
    return key


def slot_keys(layout: Layout) -> dict[tuple[int, int], bytes]:
    """Read the private keys (DER) of a local stack's issuer from its database, by epoch and slot."""
    url = load_config(layout.configs["issuer"], IssuerConfig).database_url("issuer")
    return asyncio.run(_slot_keys(url))


async def _slot_keys(url: str) -> dict[tuple[int, int], bytes]:
    engine = engine_of(url)
    try:
        async with engine.connect() as connection:
            rows = await connection.execute(text("SELECT epoch, slot, private_key FROM slot_keys"))
            return {(row.epoch, row.slot): bytes(row.private_key) for row in rows}
    finally:
        await engine.dispose()


def _some(order: Order, count: int, now: float, enclosed: bool) -> list[Contribution]:
    key = private_key(order.issuer_key)
    task = task_of(order.recipe, IssuerKey.from_private_key(key).token_key.spki)
    config = ohttp.KeyConfig.decode(unb64url(order.gateway_key))
    answers = [value % task.vdaf.flp.MEAS_LEN for value in os.urandom(count)]
    made, senders = [], RequestSenders(os.urandom)
    for report in make_reports(task, key, answers, task.report_time(now)):
        upload = UploadRequest((report,)).encode()
        made.append(Contribution(upload, enclose(task, upload, config, now, senders(config)) if enclosed else b""))
    return made
