"""Finished contributions of many devices: shard, bind the token, seal, and the faults that spoil some of them.

A contribution holds what ``tacit.roles.client.make_report`` makes for one device, but a whole batch is proved and
sealed together.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

from client_agent.wallet import HeldToken
from infra.lab.devices.additions import CELL, Addition, addition_of, counted, counts_in
from infra.lab.devices.decisions import Randomised
from infra.lab.devices.faults import Fault
from infra.lab.devices.sealing import seal_shares
from infra.lab.kit import spoiled
from tacit.messages import REPORT_ID_SIZE, Extension, HpkeCiphertext, PlaintextInputShare, Report, ReportMetadata, Role
from tacit.methods.base.statistics import STATISTICS
from tacit.models.devices import device_side
from tacit.ports import Entropy
from tacit.recipe.encoder import labels
from tacit.recipe.model import Recipe
from tacit.task import Task, input_share_aad
from tacit.tokens.binding import TOKEN_EXTENSION_TYPE
from tacit.vdaf.native.batch import BatchProver

BATCH = 512
"""Number of contributions that are made together."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """One device's finished report. ``adds`` is what it adds to the aggregate if it counts, ``body`` the bytes of its
    upload request, sent again unchanged on every try (P11)."""

    device: int
    fault: Fault
    adds: Addition = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Draft:
    """What a device's report is made from, and the fault that spoils it."""

    answer: Randomised = field(repr=False)
    token: HeldToken
    fault: Fault


class Maker(Protocol):
    """What turns the drafts of one recipe's devices into bodies to send."""

    def build(self, drafts: Sequence[Draft]) -> list[Contribution]:
        """Make one contribution per draft, in the same order; its bytes never change afterwards."""
        ...


class SubmissionBuilder:
    """Makes contributions one by one with the model's own code, as an agent does: of devices that watched an event, and
    of those that send to one server or through a shuffler."""

    def __init__(self, recipe: Recipe, slot_key: bytes, entropy: Entropy) -> None:
        self._channel = device_side(recipe.model).channel(recipe, slot_key)
        self._cells = max(1, len(labels(recipe)))
        self._adds_up = not STATISTICS[recipe.question.statistic].is_ranked
        self._entropy = entropy

    def build(self, drafts: Sequence[Draft]) -> list[Contribution]:
        """Make one contribution per draft, in the same order; faults must not spoil a share (``faults.OF_WATCHED``)."""
        return [self._contribution(draft) for draft in drafts]

    def _contribution(self, draft: Draft) -> Contribution:
        answer, held = draft.answer, draft.token
        sent: Any = answer.cells or answer.measurement
        if isinstance(sent, array) and sent.typecode == CELL:
            sent = counts_in(sent, self._cells)
        body = self._channel.submission(sent, held.token, held.preimages, self._entropy).body
        if draft.fault is Fault.TRUNCATED:
            body = body[: len(body) // 2]
        adds = addition_of(answer.measurement, self._cells) if self._adds_up else (0,)
        return Contribution(answer.device, draft.fault, adds, body)


class Builder:
    """Makes many DAP reports of one task together: they are sharded and proved in one batch."""

    def __init__(self, task: Task, entropy: Entropy) -> None:
        self._task = task
        self._entropy = entropy
        self._prover = BatchProver(task.vdaf, task.ctx)

    def build(self, drafts: Sequence[Draft]) -> list[Contribution]:
        """Make one contribution per draft, in the same order; its bytes never change afterwards."""
        drafts = list(self._with_victims(drafts))
        rand_size = self._task.vdaf.RAND_SIZE
        ids = list(_pieces(self._entropy(REPORT_ID_SIZE * len(drafts)), REPORT_ID_SIZE))
        rands = list(_pieces(self._entropy(rand_size * len(drafts)), rand_size))
        sharded = self._prover.shard([draft.answer.measurement for draft in drafts], ids, rands)
        metadata = [
            ReportMetadata(
                report_id, self._task.interval.end if draft.fault is Fault.LATE else self._task.interval.start
            )
            for report_id, draft in zip(ids, drafts, strict=True)
        ]
        public_shares = [public_share for public_share, _, _ in sharded]
        aads = [input_share_aad(self._task, *pair) for pair in zip(metadata, public_shares, strict=True)]
        sealed = {
            role: self._sealed(role, drafts, aads, [shares[1 + place] for shares in sharded])
            for place, role in enumerate((Role.LEADER, Role.HELPER))
        }
        reports = map(Report, metadata, public_shares, sealed[Role.LEADER], sealed[Role.HELPER])
        return [self._contribution(draft, report) for draft, report in zip(drafts, reports, strict=True)]

    def _with_victims(self, drafts: Sequence[Draft]) -> Iterator[Draft]:
        """Give each draft with a spent token the token and measurement of a draft of the batch that has no fault. Once
        none is left, such drafts lose their fault."""
        honest = (draft for draft in drafts if draft.fault is Fault.NONE)
        for draft in drafts:
            if draft.fault is not Fault.SPENT_TOKEN:
                yield draft
                continue
            victim = next(honest, None)
            if victim is None:
                yield Draft(draft.answer, draft.token, Fault.NONE)
            else:
                repeated = Randomised(draft.answer.device, victim.answer.measurement)
                yield Draft(repeated, victim.token, Fault.SPENT_TOKEN)

    def _sealed(
        self, role: Role, drafts: Sequence[Draft], aads: Sequence[bytes], payloads: Sequence[bytes]
    ) -> list[HpkeCiphertext]:
        plaintexts = [self._plaintext(role, *pair) for pair in zip(drafts, payloads, strict=True)]
        sealed = seal_shares(self._task, role, list(zip(aads, plaintexts, strict=True)), self._entropy)
        flipped = Fault.FLIPPED_LEADER if role is Role.LEADER else Fault.FLIPPED_HELPER
        return [
            spoiled.garbled_ciphertext(one) if draft.fault is flipped else one
            for draft, one in zip(drafts, sealed, strict=True)
        ]

    def _plaintext(self, role: Role, draft: Draft, payload: bytes) -> bytes:
        token, secrets = draft.token.token, draft.token.preimages
        if draft.fault is Fault.GARBLED_TOKEN:
            token = spoiled.garbled_token(token)
        elif draft.fault is Fault.STOLEN_TOKEN and role is Role.HELPER:
            secrets = spoiled.stolen(secrets, self._entropy)
        elif draft.fault is Fault.BAD_PROOF and role is Role.LEADER:
            payload = spoiled.broken_proof(payload)
        extension = Extension(TOKEN_EXTENSION_TYPE, secrets.extension(token, role))
        return PlaintextInputShare((extension,), payload).encode()

    def _contribution(self, draft: Draft, report: Report) -> Contribution:
        body = report.encode()
        if draft.fault is Fault.TRUNCATED:
            body = body[: len(body) // 2]
        adds = addition_of(counted(self._task.vdaf, draft.answer.measurement), self._task.vdaf.flp.OUTPUT_LEN)
        return Contribution(draft.answer.device, draft.fault, adds, body)


def _pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in islice(range(0, len(data), size), len(data) // size))
