"""How many items came to each fast path of this process, and for how many of them it was no help.

A fast path gives the same results as what it stands in for. So if nothing takes it any more, no other test notices: all
is right, and several times as slow. Each therefore counts what it is given, once per batch; what falls back counts
itself. ``tests/http/test_fast_paths.py`` lets an ordinary run take all of them. The numbers stay within the process.
"""

from __future__ import annotations


class FastPath:
    """``items`` that came, ``fallbacks`` among them. Threads may add at once and lose a number, but none that is 0."""

    __slots__ = ("fallbacks", "items")

    def __init__(self) -> None:
        self.items = self.fallbacks = 0


UPLOADS, REPORTS, JOBS, PLAINTEXTS = FastPath(), FastPath(), FastPath(), FastPath()
"""Cut into slices: the reports of uploads, those that the leader opens, those of the helper's jobs, and the input
shares of both; else the codecs read them (``tacit.messages.slices``)."""
ANSWERS = FastPath()
"""Reports in the helper's answers, which the leader compares as a whole with those that it expects."""
VERIFIED, AGGREGATED, SHARDED = FastPath(), FastPath(), FastPath()
"""Reports that the kernels of Prio3 verify, out shares that they add, and measurements that they shard
(``tacit.vdaf.native``)."""
TOKENS, OPENED, SEALED = FastPath(), FastPath(), FastPath()
"""Signatures, sealed messages to a key of ours, and messages that are sealed, in batches (``tacit.multibuffer``)."""
REQUESTS = FastPath()
"""Requests to fast routes, which the application can answer too (``tacit.service.http.fast_route``)."""
RELAYED, FORWARDED = FastPath(), FastPath()
"""Messages that share a frame: a relay's where it is to send frames, and a gateway's uploads to its own leader."""
STORED, COPIED = FastPath(), FastPath()
"""Reports that a leader stores in one statement, which PostgreSQL alone has, and rows that it takes by COPY, where they
are expected to be new."""
CANONICAL = FastPath()
"""Canonical JSON documents that Python's own encoder writes as RFC 8785 has them (``tacit.tlog.canonical``)."""
