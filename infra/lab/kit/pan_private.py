"""Reports of pan-private tasks: good ones as devices make them, and bad ones layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.reports import BOTH, TaskKit, TokenSource, make_task_kit, token_source
from tacit.messages import Report, ReportMetadata, Role
from tacit.panprivate.elgamal import PrivateKey
from tacit.panprivate.embedding import embed
from tacit.panprivate.state import encrypt_publicly
from tacit.panprivate.two_servers import SharedCells, Sharing, sealed_shares
from tacit.ports import Entropy
from tacit.roles.client import bound_report
from tacit.vdaf.count_vec import Prio3CountVec

Payloads = dict[Role, bytes]


def make_shared_kit(length: int, *, seed: bytes | int = 0, **options: Any) -> TaskKit:
    """A pan-private task of ``length`` cells; ``options`` are those of ``make_task_kit``."""
    kit = make_task_kit(Prio3CountVec(2, length), seed=seed, **options)
    entropy = SeededEntropy(seed).child("state keys")
    keys = {role: PrivateKey.generate(entropy) for role in BOTH}
    leader, helper = (keys[role].public_key().element for role in BOTH)
    task = replace(kit.task, leader_state_key=leader, helper_state_key=helper)
    return replace(kit, task=task, state_keys=keys)


class SharedReports:
    """Reports for ``kit``'s task, reproducible by ``seed`` up to the tokens' signatures."""

    def __init__(self, kit: TaskKit, seed: bytes | int = 0) -> None:
        self.task = kit.task
        self.entropy: Entropy = SeededEntropy(seed)
        self._tokens: TokenSource = token_source(kit.issuer_key, SeededEntropy(seed).child("tokens"))
        self._keys = {role: kit.state_keys[role].public_key() for role in BOTH}

    def sharing(self, context: bytes | None = None) -> Sharing:
        """The sharing that cells are made with, bound to the task or to another ``context``."""
        return Sharing(self._keys[Role.LEADER], self._keys[Role.HELPER], self.task.ctx if context is None else context)

    def cells(self, bits: Sequence[int], context: bytes | None = None) -> SharedCells:
        """One cell for each of ``bits`` (0 or 1), rerandomised as a device does before it sends it."""
        sharing = self.sharing(context)
        return tuple(sharing.rerandomised(sharing.made(bit, self.entropy), self.entropy) for bit in bits)

    def payloads(self, bits: Sequence[int], context: bytes | None = None) -> Payloads:
        """The input shares of a report of ``bits``, by aggregator."""
        return dict(zip(BOTH, sealed_shares(self.cells(bits, context)), strict=True))

    def encrypted(self, role: Role, chunk: bytes) -> bytes:
        """The ciphertexts of one cell's part ``chunk``, which may be any bytes."""
        key = self._keys[role]
        return b"".join(key.rerandomise(encrypt_publicly(element), self.entropy).encode() for element in embed(chunk))

    def valid(self, bits: Sequence[int]) -> Report:
        """A report that both aggregators accept (once)."""
        return self.report(self.payloads(bits))

    def report(self, payloads: Payloads) -> Report:
        """A report with a good token and these payloads."""
        bound = self._tokens(self.task.slot)
        metadata = ReportMetadata(self.entropy(16), self.task.interval.start)
        return bound_report(self.task, (b"", payloads), bound.token, bound.preimages, metadata, self.entropy)

    def of_shares(self, change: Callable[[bytes, bytes], tuple[bytes, bytes]], bits: Sequence[int]) -> Report:
        """A report in whose first cell ``change`` was applied to the Leader's chunk and the Helper's seed."""
        vdaf = Prio3CountVec(2, 1)
        chunk, seed = vdaf.shard_cell(self.task.ctx, bits[0], self.entropy(vdaf.CELL_RAND_SIZE))
        first = dict(zip(BOTH, change(chunk, seed), strict=True))
        rest: SharedCells = self.cells(bits[1:])
        others = dict(zip(BOTH, sealed_shares(rest), strict=True))
        return self.report({role: self.encrypted(role, first[role]) + others[role] for role in BOTH})
