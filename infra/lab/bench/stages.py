"""The cost of each step of one contribution, beside its floor.

There is one histogram task. Figures are CPU time of this process, and of the database if a stage has one. "prepare" is
everything that an aggregator does to a job's reports before its commit; "aggregation job" is what leader and helper do
together from the stored reports to the committed aggregate; "commit" is "aggregation job" less both preparations.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from infra.lab.bench.loading.contributions import enclose, make_reports, private_key
from infra.lab.bench.loading.implementations import (
    BATCH_TOKENS,
    MULTIBUFFER,
    OPENSSL,
    Crypto,
    batch_verifier,
    cryptos,
    decapsulators,
    has_multibuffer,
    helper_job,
    leader_job,
    sealer,
)
from infra.lab.bench.loading.storage import Backend, Database, backends
from infra.lab.bench.primitives import Primitives
from infra.lab.bench.rows import Row, Subject, Timing, measured
from infra.lab.kit.aggregators import AggregatorPair, party_of
from infra.lab.kit.reports import TaskKit, make_task_kit
from infra.lab.kit.scratch import scratch_folder
from infra.stacks.deployment import BATCH_CRYPTO
from services.helper.app import create_app as create_helper
from services.helper.config import HelperConfig
from services.leader.app import create_app as create_leader
from services.leader.config import LeaderConfig
from tacit import hpke, ohttp
from tacit.messages import InputShareAad, Interval, PlaintextInputShare, Report, Role
from tacit.roles.aggregator import Party
from tacit.tokens.structures import TOKEN_SIZE
from tacit.vdaf import ping_pong
from tacit.vdaf.native import level
from tacit.vdaf.native.batch import BatchProver
from tacit.vdaf.prio3 import Prio3Histogram

LENGTH, CHUNK_LENGTH = 128, 18
REPORTS = 256
JOB_REPORTS = 1024
MOST_JOBS = 3
UPLOAD_REPORTS = 128
SUBJECT = Subject("histogram", {"length": LENGTH, "chunk_length": CHUNK_LENGTH})


@dataclass(frozen=True)
class Bench:
    """A task with both of its aggregators, and reports for it."""

    kit: TaskKit
    reports: list[Report]
    leader: Party
    helper: Party

    @classmethod
    def make(cls, reports: int) -> Bench:
        """Make a task whose interval has begun, and ``reports`` valid reports for it."""
        kit = make_task_kit(
            Prio3Histogram(2, LENGTH, CHUNK_LENGTH), expected_contributions=1_000_000, interval=Interval(1000, 100)
        )
        answers = [number % LENGTH for number in range(reports)]
        made = make_reports(kit.task, private_key(kit.issuer_key.to_der()), answers, kit.task.interval.start)
        return cls(kit, made, party_of(kit, Role.LEADER), party_of(kit, Role.HELPER))

    @property
    def now(self) -> float:
        """A moment inside the task's interval."""
        return float(self.kit.task.start_seconds + 60)

    def sealed(self, role: Role) -> list[tuple[bytes, bytes, bytes]]:
        """Return the sealed share for ``role`` of every report: encapsulated key, associated data, ciphertext."""
        found = []
        for report in self.reports:
            share = report.leader_encrypted_input_share if role is Role.LEADER else report.helper_encrypted_input_share
            aad = InputShareAad(
                self.kit.task.task_id, self.kit.task.configuration, report.report_metadata, report.public_share
            ).encode()
            found.append((share.enc, aad, share.payload))
        return found

    def opened(self, role: Role) -> list[PlaintextInputShare]:
        """The shares of ``sealed``, opened and decoded, in the order of the reports."""
        pair, info = self.kit.key_pairs[role], self.kit.task.version.input_share_info(role)
        plain = [hpke.open_(SUITE, pair, enc, info, aad, text) for enc, aad, text in self.sealed(role)]
        return [PlaintextInputShare.decode(one) for one in plain]


SUITE = hpke.Suite(hpke.KEM_X25519, hpke.KDF_HKDF_SHA256, hpke.AEAD_AES128GCM)


def stage_rows(repetitions: int) -> Iterator[Row]:
    """Measure the primitives first, as they are the floors of the rows that follow, then every stage."""
    primitives = Primitives.measure(max(3, repetitions))
    yield from primitives.rows()
    bench = Bench.make(REPORTS)
    ways = cryptos()
    for crypto in ways:
        if crypto.path != BATCH_TOKENS:
            yield from _crypto(bench, crypto, primitives, repetitions)
    yield from _prio3(bench, primitives, repetitions)
    prepared: dict[str, float] = {}
    for crypto in ways:
        for row in _prepare(bench, crypto, primitives, repetitions):
            prepared[crypto.path] = prepared.get(crypto.path, 0.0) + row.us_per_report
            yield row
    yield from _client(bench, primitives, repetitions)
    for backend in backends():
        default = prepared.get(BATCH_TOKENS, prepared[OPENSSL])
        yield from _stored(backend, OPENSSL, primitives, default, repetitions)
        if has_multibuffer():
            yield from _stored(backend, MULTIBUFFER, primitives, prepared[MULTIBUFFER], repetitions)


def _crypto(bench: Bench, crypto: Crypto, primitives: Primitives, repetitions: int) -> Iterator[Row]:
    for role in (Role.LEADER, Role.HELPER):
        info = bench.kit.task.version.input_share_info(role)
        sealed, pair = bench.sealed(role), bench.kit.key_pairs[role]

        def open_all(pair: hpke.KeyPair = pair, info: bytes = info, sealed: Any = sealed) -> object:
            return crypto.job.open_all(pair, SUITE, info, sealed)

        timing = measured(open_all, REPORTS, repetitions)
        yield SUBJECT.row("HPKE open", role.name.lower(), crypto.path, timing, floor_us=primitives.hpke_open)
    tokens = [share.private_extensions[0].extension_data[:TOKEN_SIZE] for share in bench.opened(Role.LEADER)]
    timing = measured(lambda: crypto.job.verify_tokens(bench.leader.tokens, tokens), REPORTS, repetitions)
    yield SUBJECT.row("token verify", "both", crypto.path, timing, floor_us=primitives.rsa_verify.micro)


def _prio3(bench: Bench, primitives: Primitives, repetitions: int) -> Iterator[Row]:
    task = bench.kit.task
    verify_leader, verify_helper = batch_verifier(task.vdaf, bench.kit.verify_key, task.ctx)
    nonces = [report.report_metadata.report_id for report in bench.reports]
    public = [report.public_share for report in bench.reports]
    leader, helper = ([share.payload for share in bench.opened(role)] for role in (Role.LEADER, Role.HELPER))
    inbound = [
        ping_pong.leader_initialized(task.vdaf, bench.kit.verify_key, task.ctx, None, *one).outbound
        for one in zip(nonces, public, leader, strict=True)
    ]
    calls: list[tuple[str, Callable[[], object]]] = [
        ("leader", lambda: verify_leader(nonces, public, leader)),
        ("helper", lambda: verify_helper(nonces, public, helper, inbound)),
    ]
    for role, call in calls:
        floor = _field_floor(primitives, role)
        yield SUBJECT.row("verify_init, batch", role, level(), measured(call, REPORTS, repetitions), floor_us=floor)


def _field_floor(primitives: Primitives, role: str) -> float | None:
    vdaf = Prio3Histogram(2, LENGTH, CHUNK_LENGTH)
    return None if primitives.field is None else primitives.field.micro(vdaf, role)


def _prepare(bench: Bench, crypto: Crypto, primitives: Primitives, repetitions: int) -> Iterator[Row]:
    public_key = primitives.hpke_open + primitives.rsa_verify.micro
    lead = leader_job(bench.leader, bench.reports, bench.now, crypto)
    for role, call in (("leader", lead), ("helper", helper_job(bench.helper, lead(), bench.now, crypto))):
        floor = public_key + (_field_floor(primitives, role) or 0.0)
        timing = measured(call, REPORTS, repetitions)
        yield SUBJECT.row("prepare a job", role, crypto.path, timing, floor_us=floor)


def _client(bench: Bench, primitives: Primitives, repetitions: int) -> Iterator[Row]:
    task = bench.kit.task
    prover = BatchProver(task.vdaf, task.ctx)
    answers = [number % LENGTH for number in range(REPORTS)]
    nonces, rands = ([os.urandom(size) for _ in answers] for size in (16, task.vdaf.RAND_SIZE))
    timing = measured(lambda: prover.shard(answers, nonces, rands), REPORTS, repetitions)
    yield SUBJECT.row("shard, batch", "client", level(), timing, floor_us=_field_floor(primitives, "client"))
    bodies = [bytes(len(bench.sealed(Role.LEADER)[0][2]))] * REPORTS
    floor = 2 * primitives.x25519.micro + primitives.aes_gcm.micro
    for path, seal in sealer(bench.kit.key_pairs[Role.LEADER].public, SUITE).items():
        timing = measured(partial(seal, bodies), REPORTS, repetitions)
        yield SUBJECT.row("HPKE seal", "client", path, timing, floor_us=floor)
    config, pair = ohttp.generate_key_config(1, os.urandom)
    messages = [enclose(task, report.encode(), config, bench.now) for report in bench.reports]
    for path, decapsulate in decapsulators(ohttp.Decapsulator([(config, pair)])).items():
        timing = measured(partial(decapsulate, messages), REPORTS, repetitions)
        yield SUBJECT.row("OHTTP decapsulate", "gateway", path, timing, floor_us=primitives.hpke_open)


def _stored(backend: Backend, crypto: str, primitives: Primitives, prepared: float, repetitions: int) -> Iterator[Row]:
    """Measure upload and aggregation with a real store; ``prepared`` is what both preparations cost without one."""
    repetitions = min(repetitions, MOST_JOBS)
    with backend.running() as database, scratch_folder("tacit-bench-") as folder:
        runs = [asyncio.run(_run(database, crypto, folder / str(number))) for number in range(repetitions)]
    upload, job = (Timing.of([run[part] / JOB_REPORTS for run in runs]) for part in (0, 1))
    floors = [_field_floor(primitives, role) or 0.0 for role in ("leader", "helper")]
    floor = sum(floors) + 2 * (primitives.hpke_open + primitives.rsa_verify.micro)
    path = f"{crypto}, {backend.name}"
    if crypto == OPENSSL:
        yield SUBJECT.row("upload, group commit", "leader", backend.name, upload)
    yield SUBJECT.row("aggregation job", "leader + helper", path, job, floor_us=floor)
    commit = Timing(job.micro - prepared, job.spread, job.repetitions)
    yield SUBJECT.row("commit a job", "leader + helper", path, commit)


async def _run(database: Database, crypto: str, folder: Path) -> tuple[float, float]:
    """Return the CPU seconds of storing ``JOB_REPORTS`` reports, and of aggregating them in one job."""
    bench = Bench.make(JOB_REPORTS)
    pair = AggregatorPair(
        bench.kit,
        folder,
        lambda settings, deps: create_leader(LeaderConfig.model_validate(settings), deps),
        lambda settings, deps: create_helper(HelperConfig.model_validate(settings), deps),
        storage="file",
        limits={"job_size": JOB_REPORTS},
        databases=await database.fresh((Role.LEADER, Role.HELPER)),
    )
    for settings in pair.settings.values():
        settings.update({BATCH_CRYPTO: True} if crypto == MULTIBUFFER else {})
    async with pair:
        before = time.process_time() + database.cpu()
        for start in range(0, JOB_REPORTS, UPLOAD_REPORTS):
            errors = await pair.upload(bench.reports[start : start + UPLOAD_REPORTS])
            if errors is not None:
                raise ValueError("a report of the measurement was refused")
        stored = time.process_time() + database.cpu()
        await pair.work()
        done = time.process_time() + database.cpu()
        counts = await pair.status(Role.HELPER)
    if counts["aggregated"] != JOB_REPORTS:
        raise ValueError(f"not all of {JOB_REPORTS} reports of the measurement were counted: {counts}")
    return stored - before, done - stored
