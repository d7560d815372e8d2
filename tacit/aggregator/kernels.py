"""On which kernels a server verifies reports, checks tokens and opens messages, for its readiness page."""

from __future__ import annotations

from aiohttp import web

from tacit.multibuffer.library import level as batch_level
from tacit.native_level import BATCHES, PRIO3
from tacit.service.kernels import show_kernels
from tacit.vdaf.native import level as prio3_level


def show_aggregator_kernels(app: web.Application) -> None:
    """Show those of a leader or helper: for Prio3 reports, and for batches of tokens and HPKE messages."""
    show_kernels(app, {PRIO3: prio3_level, BATCHES: batch_level})


def show_batch_kernels(app: web.Application) -> None:
    """Show those of a server that verifies no Prio3 report."""
    show_kernels(app, {BATCHES: batch_level})
