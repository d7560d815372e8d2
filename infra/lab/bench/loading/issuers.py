"""Token issuers of a measurement, beside the stack's own, so that any number of recipes can be live at once.

A slot belongs to one recipe, and a directory is one leaf of the log, of at most 64 KiB. The folder of a local stack has
every policy, so these issuers are entered there and publish their directories themselves; nothing is issued, because
contributions made in bulk sign their tokens with the slots' keys (``contributions``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context

from infra.base.remembered_servers import amend_config
from infra.lab.devices.pool import end_with_parent
from infra.stacks.layout import Layout
from services.issuer.config import MAX_SLOTS
from tacit.adapters.system import OsEntropy
from tacit.codec import b64url
from tacit.models.parties import Issuer
from tacit.operations.calls import call
from tacit.ports import Transport
from tacit.signing import SigningKey, generate_signing_key
from tacit.tlog.leaves import LeafType, sign_leaf
from tacit.tlog.token_directories import IssuerDirectory, SlotKey
from tacit.tokens.issuer_key import IssuerKey

SLOTS = MAX_SLOTS
"""Token keys of an issuer, as many as a real one may have."""
NAME = "bench-{}.example"


@dataclass(frozen=True)
class BenchIssuer:
    """One issuer: its name, the key that signs its directory, and its slots' private keys (PKCS#8 DER)."""

    name: str
    signing_key: SigningKey = field(repr=False)
    slots: Sequence[bytes] = field(repr=False)

    @property
    def party(self) -> Issuer:
        return Issuer(operator=self.name, name=self.name, signing_key=b64url(self.signing_key.public))


def make_issuers(slots: int) -> list[BenchIssuer]:
    """As many issuers as ``slots`` need, ``SLOTS`` each but for the last. The RSA keys are made by a process for each
    CPU."""
    with ProcessPoolExecutor(os.cpu_count() or 1, get_context("spawn"), initializer=end_with_parent) as pool:
        keys = list(pool.map(_fresh_key, range(slots), chunksize=8))
    return [
        BenchIssuer(NAME.format(number), generate_signing_key(OsEntropy()), keys[start : start + SLOTS])
        for number, start in enumerate(range(0, slots, SLOTS), start=1)
    ]


def trust_issuers(issuers: Sequence[BenchIssuer], layout: Layout) -> None:
    """Enter ``issuers`` in every policy of a stack whose processes are not laid out yet."""
    more = {one.name: b64url(one.signing_key.public) for one in issuers}
    for path in layout.configs.values():
        body = json.loads(path.read_text("utf-8"))
        if "policy" in body:
            amend_config(path, policy=_with(body["policy"], more))
    policy = json.loads(layout.policy_path.read_text("utf-8"))
    layout.policy_path.write_text(json.dumps(_with(policy, more), indent=1), "utf-8")


async def publish_directories(transport: Transport, layout: Layout, issuers: Sequence[BenchIssuer], epoch: int) -> None:
    """Publish the token keys of ``issuers`` for ``epoch`` in the log of a running stack."""
    for one in issuers:
        spki = [IssuerKey.from_der(key).token_key.spki for key in one.slots]
        body = IssuerDirectory(
            issuer=one.name,
            epoch=epoch,
            epoch_seconds=layout.options.epoch_seconds,
            request_uri=f"https://{one.name}/token-request",
            keys=[SlotKey(slot=slot, token_key=b64url(key)) for slot, key in enumerate(spki)],
        )
        leaf = sign_leaf(LeafType.ISSUER_DIRECTORY, body, one.name, one.signing_key)
        await call(transport, "POST", f"{layout.urls['recipe_server']}/v1/leaves", body=leaf.encode())


def _with(policy: dict[str, object], more: dict[str, str]) -> dict[str, object]:
    known = policy["issuers"]
    return {**policy, "issuers": {**(known if isinstance(known, dict) else {}), **more}}


def _fresh_key(_number: int) -> bytes:
    return IssuerKey.generate().to_der()
