"""The client of the admin API for synchronous programs, notebooks and commands. Every method waits for its answer."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from tacit.adapters.network.tls import ClientTls
from tacit.client.audit import AsyncAudit
from tacit.client.blocking import Blocking, Loop, blocking, iterating
from tacit.client.jobs import AsyncJobs
from tacit.client.learning import AsyncRuns
from tacit.client.log import AsyncLog, AsyncSeries
from tacit.client.operator import AsyncOperator
from tacit.client.people import AsyncPeople
from tacit.client.questions import AsyncQuestions
from tacit.client.recipes import AsyncRecipes
from tacit.ports import Clock, Entropy, Transport


class Recipes(Blocking):
    """The blocking form of ``AsyncRecipes``."""

    all = iterating(AsyncRecipes.all)
    get = blocking(AsyncRecipes.get)
    collect = blocking(AsyncRecipes.collect)
    collections = blocking(AsyncRecipes.collections)
    collection = blocking(AsyncRecipes.collection)
    results = blocking(AsyncRecipes.results)
    wait_for_release = blocking(AsyncRecipes.wait_for_release)


class SeriesOf(Blocking):
    """The blocking form of ``AsyncSeries``."""

    all = iterating(AsyncSeries.all)
    get = blocking(AsyncSeries.get)
    draft_next = blocking(AsyncSeries.draft_next)
    end = blocking(AsyncSeries.end)
    censuses = iterating(AsyncSeries.censuses)


class Runs(Blocking):
    """The blocking form of ``AsyncRuns``."""

    create = blocking(AsyncRuns.create)
    edit = blocking(AsyncRuns.edit)
    forecast = blocking(AsyncRuns.forecast)
    get = blocking(AsyncRuns.get)
    model = blocking(AsyncRuns.model)


class Jobs(Blocking):
    """The blocking form of ``AsyncJobs``."""

    all = iterating(AsyncJobs.all)
    retry = blocking(AsyncJobs.retry)


class LogOf(Blocking):
    """The blocking form of ``AsyncLog``."""

    checkpoint = blocking(AsyncLog.checkpoint)
    entries = iterating(AsyncLog.entries)
    proof = blocking(AsyncLog.proof)
    ledger = blocking(AsyncLog.ledger)
    keys = blocking(AsyncLog.keys)


class Questions(Blocking):
    """The blocking form of ``AsyncQuestions``."""

    create = blocking(AsyncQuestions.create)
    all = iterating(AsyncQuestions.all)
    get = blocking(AsyncQuestions.get)
    edit = blocking(AsyncQuestions.edit)
    delete = blocking(AsyncQuestions.delete)
    check = blocking(AsyncQuestions.check)
    check_text = blocking(AsyncQuestions.check_text)
    design = blocking(AsyncQuestions.design)
    submit = blocking(AsyncQuestions.submit)
    approve = blocking(AsyncQuestions.approve)
    publish = blocking(AsyncQuestions.publish)
    sign = blocking(AsyncQuestions.sign)
    end = blocking(AsyncQuestions.end)


class People(Blocking):
    """The blocking form of ``AsyncPeople``."""

    all = iterating(AsyncPeople.all)
    add = blocking(AsyncPeople.add)
    changes = blocking(AsyncPeople.changes)
    consent = blocking(AsyncPeople.consent)
    refuse = blocking(AsyncPeople.refuse)
    change = blocking(AsyncPeople.change)
    keys = blocking(AsyncPeople.keys)
    give_key = blocking(AsyncPeople.give_key)
    take_key = blocking(AsyncPeople.take_key)
    invite = blocking(AsyncPeople.invite)
    unbind = blocking(AsyncPeople.unbind)


class Audit(Blocking):
    """The blocking form of ``AsyncAudit``."""

    all = iterating(AsyncAudit.all)
    newest = blocking(AsyncAudit.newest)
    verify = blocking(AsyncAudit.verify)


class Operator(Blocking):
    """The blocking form of ``AsyncOperator``, which documents the parameters and errors. Close it, or use ``with``.
    Its methods may be called from any thread."""

    def __init__(
        self,
        url: str,
        *,
        key_file: Path | str | None = None,
        key: str | None = None,
        timeout: float = 30.0,
        patience: float = 30.0,
        tls: ClientTls | None = None,
        insecure_http: bool = False,
        transport: Transport | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        awaited = AsyncOperator(
            url, key_file=key_file, key=key, timeout=timeout, patience=patience, tls=tls, insecure_http=insecure_http,
            transport=transport, clock=clock, entropy=entropy,
        )  # fmt: skip
        super().__init__(awaited, Loop())
        self.url = awaited.url
        self.questions = Questions(awaited.questions, self._loop)
        """Questions, from draft to end."""
        self.recipes = Recipes(awaited.recipes, self._loop)
        """Recipes of the log, their batches and results."""
        self.series = SeriesOf(awaited.series, self._loop)
        """Series and censuses of the log."""
        self.runs = Runs(awaited.runs, self._loop)
        """Training runs: their plans, rounds and models."""
        self.jobs = Jobs(awaited.jobs, self._loop)
        """Jobs of the service and of the collector, and which of them are stuck."""
        self.log = LogOf(awaited.log, self._loop)
        """Calls that read the log and the privacy accounts."""
        self.people = People(awaited.people, self._loop)
        """Calls that manage people and their API keys."""
        self.audit = Audit(awaited.audit, self._loop)
        """Calls that read the audit log."""

    session = blocking(AsyncOperator.session)
    fleet = blocking(AsyncOperator.fleet)
    description = blocking(AsyncOperator.description)
    events = iterating(AsyncOperator.events)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections and stop the client's thread."""
        if self._loop.open:
            self._loop.run(self._awaited.close())
            self._loop.close()
