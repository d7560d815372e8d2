"""What the rows of a benchmark are: a page beside the documents, ``python -m infra.lab.bench.described PAGE``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from infra.lab.bench.rows import Row
from infra.tools.documents.schemas import member_notes
from infra.tools.documents.words import page, table
from tacit.adapters.disk.files import replace_file

STAGES: Mapping[tuple[str, ...], str] = {
    ("primitive",): (
        "X25519, AES-128-GCM of 3 KiB, RSA-2048 PSS verification (all OpenSSL), one Keccak permutation, one "
        "Field128 product; fsync is wall time"
    ),
    (
        "verify_init",
        "decide",
        "aggregate",
        "shard",
    ): "the C kernels alone, and the pure-Python implementation as path `off`",
    (
        "verify_init, batch",
        "shard, batch",
    ): ("the same through the Python interface that the services call: what the interface costs is the difference"),
    (
        "HPKE open",
        "token verify",
    ): "a job's public-key work",
    (
        "prepare a job",
    ): "all that an aggregator does to a job's reports before its commit: decode, open, token, Prio3, encode",
    ("aggregation job",): "leader and helper together, from stored reports to the committed aggregate, in one process",
    (
        "commit a job",
    ): "`aggregation job` less both `prepare a job`: transactions, the messages between the two, the rest",
    ("upload, group commit",): "the leader's part of an upload, 128 reports a request",
    (
        "HPKE seal",
        "OHTTP decapsulate",
    ): "client and gateway",
    ("claim, fresh interpreter",): (
        "CPU time, in all, of an interpreter that computes a recipe's claim at B and B/2 (`parameters.n`), "
        "less that of an empty one: `claim alone` by `tacit.dp`, `read and claim` with the recipe's model; "
        "`vdaf` is the randomizer"
    ),
    ("ledger of 1,000 recipes",): (
        "CPU time, in all, of what is spent, whether one more recipe fits, and the largest that does, in an "
        "account of `parameters.days` that is full"
    ),
    ("ingest",): (
        "every process while contributions are only taken: no job is formed. `all servers` is the sum of "
        "relay, gateway, leader, helper, database and brokers; `others` (issuer, attester, log, collector) "
        "poll meanwhile and are not in it"
    ),
    ("upload latency",): (
        "from sending a contribution (at a stated rate: from the time it was due) to the relay's answer, "
        "which follows the leader's commit"
    ),
    ("whole server side",): "the same processes until the last contribution is aggregated by both",
    (
        "sustained, wall time",
    ): "wall time per contribution of that run, load generator on the same machine: 200 is 5,000 per second",
    ("release latency at B",): (
        "from the acknowledgement of the B-th contribution (`batch.close = at_B`) to the result at the collector"
    ),
    ("aggregation, wall time",): (
        "from the start of N leader and N helper workers, each with a share of a core, until all reports uploaded "
        "before are counted; `ratio` is the speed over that of one of each"
    ),
    ("memory, ",): (
        "most bytes that the process had to itself with N reports queued: while the helper did not answer, "
        "and while it then caught up"
    ),
    ("agent start, wall time",): (
        "from the start of a process of `tacit agent` until its devices have read the log, for each device; "
        "the stack is on the same machine"
    ),
    ("agent idle, a second",): (
        "CPU time of a device in a second in which it has nothing to answer and looks at the log once a minute"
    ),
    ("agent memory",): "bytes that the process has to itself, interpreter and code included, for each of its devices",
    ("device contribution",): (
        "CPU time of one device, client and journal included, for one contribution: its `path` is a part (`read the "
        "log`, with everything in it verified again; `token`; `decide`; `send`), `whole`, or `whole, in a host`, where "
        "a neighbour has verified the same. Devices are agents in the measuring process, one after the other; "
        "everybody else is a process of a stack"
    ),
    ("admin API latency",): (
        "from the time at which a request was due until its answer was read: twelve kinds of requests, as "
        "often each, beside a log and an audit log of `parameters.rows` rows and `parameters.recipes` recipes"
        " that are over; p50 and p99 of a repetition"
    ),
    ("admin API request",): "CPU time of the admin service for one of them, databases of other processes apart",
    (
        "admin log latency, first read",
    ): "from the first request until the admin service has read and verified the whole log",
    ("admin memory",): "bytes that the admin service has to itself afterwards",
    ("dashboard latency, first paint",): (
        "the browser's own `first-contentful-paint` of a page, from the beginning of the navigation, nothing "
        "kept from before (`--pages`)"
    ),
}
"""Names of stages, or what they begin with -> what is measured."""


def described(stage: str) -> str:
    """What ``stage`` is, by the longest name that it begins with; empty for one that nobody described."""
    found = [(len(name), about) for names, about in STAGES.items() for name in names if stage.startswith(name)]
    return max(found, default=(0, ""))[1]


def rows_page() -> str:
    """The page of what each member of a row, and each stage, means."""
    stages = [(", ".join(f"`{name.rstrip(', ')}`" for name in names), about) for names, about in STAGES.items()]
    return page(
        "# Rows of a benchmark",
        "Generated from the code by `make documents`; a test compares. How to run and compare: [README](README.md).",
        "Units: `us_per_report` is CPU time of all threads of the processes concerned, in microseconds per report. "
        'Exceptions, by the stage\'s name: "... latency" and "... wall time" are wall time in microseconds, '
        '"memory ..." is bytes.',
        table(("member", "meaning"), [(f"`{name}`", about) for name, about in member_notes(Row).items()]),
        table(("stage", "what it is"), stages),
    )


if __name__ == "__main__":
    replace_file(Path(sys.argv[1]), rows_page().encode())
