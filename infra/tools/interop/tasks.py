"""DAP tasks without a recipe: the parties that count their reports without tokens, and their credentials."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from tacit import hpke
from tacit.curve25519 import checked_public_key
from tacit.dap_errors import DapAbort, DapProblem, ReportRejected
from tacit.errors import DecodeError, Refusal
from tacit.messages import BatchMode, Extension, HpkeConfig, Interval, Role, TaskConfiguration, check_report_extensions
from tacit.ports import HttpResponse, Transport
from tacit.roles.aggregator import Party
from tacit.roles.crypto import JobCrypto
from tacit.service.base.config import Listen
from tacit.service.http.auth import token_digest, unauthorized
from tacit.service.http.callers import Callers
from tacit.service.http.fast_route import Asking
from tacit.service.http.server import vouch
from tacit.task import BatchClose, Task, interval_of, vdaf_of
from tacit.tokens.slots import Slot
from tacit.version import DapVersion

MOST_REPORTS = 1_000_000
"""Number of reports that a task expects; twice as many may come."""
GRACE_SECONDS = 7 * 86400.0
ALWAYS = Interval(0, 1 << 40)
"""The interval of a task whose request states none."""
AUTH_HEADER = "DAP-Auth-Token"
"""The header in which the draft of the test API puts the token. A bearer token is accepted too, but never sent: Janus
compares kinds of tokens first, and refuses a caller who shows both."""
_NO_SLOT = Slot("", 0, 0)
_RESOURCE = re.compile(r"/tasks/([A-Za-z0-9_-]{43})(?:/|$)")


class BareParty(Party):
    """An aggregator's view of a task whose reports carry no token: each report counts once by its id, and senders
    cannot be told apart."""

    EXTENSION_TYPE: ClassVar[int | None] = None

    def evidence(self, public: Sequence[Extension], private: Sequence[Extension]) -> bytes:
        """Returns nothing: an extension of any kind is unknown."""
        check_report_extensions(public, private, ())
        return b""

    def nullifiers(
        self, report_ids: Sequence[bytes], evidence: Sequence[bytes], _crypto: JobCrypto
    ) -> list[bytes | ReportRejected]:
        """For each report a digest of task id and report id, in place of a token's nullifier."""
        prefix = b"tacit interop report" + self.task.task_id
        return [
            hashlib.sha256(prefix + report_id + one).digest()
            for report_id, one in zip(report_ids, evidence, strict=True)
        ]


def bare_task(
    task_id: bytes, configuration: TaskConfiguration, version: DapVersion, configs: Mapping[Role, HpkeConfig]
) -> Task:
    """The task of ``configuration`` under a chosen id, with the HPKE configurations that a party knows. Raises
    ``Refusal``."""
    if configuration.batch_config or configuration.time_precision < 1 or configuration.min_batch_size < 1:
        raise Refusal("task-batch", "batch_config must be empty, time precision and minimum batch size at least 1")
    selected = configuration.batch_mode is BatchMode.LEADER_SELECTED
    interval = interval_of(configuration) or ALWAYS
    if interval.end * configuration.time_precision >= 1 << 63:
        raise Refusal("task-interval", "the task interval ends after the times that can be stored")
    return Task(
        task_id=task_id,
        configuration=configuration,
        vdaf=vdaf_of(configuration),
        leader_hpke_config=configs.get(Role.LEADER),
        helper_hpke_config=configs.get(Role.HELPER),
        collector_hpke_config=configs.get(Role.COLLECTOR),
        slot=_NO_SLOT,
        token_key_spki=b"",
        interval=interval,
        batch_close=BatchClose.AT_B if selected else BatchClose.ON_QUERY,
        expected_contributions=MOST_REPORTS,
        recipe_hash=task_id,
        version=version,
    )


def usable(config: HpkeConfig) -> bool:
    """Whether this project can seal to an HPKE configuration."""
    try:
        checked_public_key(config.public_key)
    except DecodeError:
        return False
    return hpke.Suite(config.kem_id, config.kdf_id, config.aead_id).supported


class Credentials:
    """Tokens by task: digests of those that callers must show, and the token that we show to the task's other
    aggregator."""

    def __init__(self) -> None:
        self._digests: dict[str, dict[str, bytes]] = {}
        self._shown: dict[str, str] = {}

    def add(self, task: Task, callers: Mapping[str, str], shown: str = "") -> None:
        """Add the tokens of a task: ``callers`` by role, and ``shown`` in our own requests."""
        self._digests[task.task_id_text] = {role: token_digest(token) for role, token in callers.items()}
        self._shown[task.task_id_text] = shown

    def digests(self, task_id: str) -> dict[str, bytes] | None:
        """SHA-256 of the token that each role must show for a task; None for an unknown task."""
        return self._digests.get(task_id)

    def headers(self, url: str) -> dict[str, str]:
        """The header with our token for the task in ``url``; none if it names no task, or one without such a token."""
        found = _RESOURCE.search(url)
        token = "" if found is None else self._shown.get(found[1], "")
        return {AUTH_HEADER: token} if token else {}


class TaskCallers(Callers):
    """Each task has its own callers, who show their token as the test API says, or as a bearer token."""

    def __init__(self, service: str, credentials: Credentials) -> None:
        super().__init__(service, Listen(), {})
        self._credentials = credentials

    def require(self, request: Asking, *roles: str) -> str:
        """The role among ``roles`` whose token the caller shows. Raises ``DapAbort`` for an unknown task, and ``Abort``
        for a caller who shows none of these tokens."""
        digests = self._credentials.digests(request.match_info.get("task_id", ""))
        if digests is None:
            raise DapAbort(DapProblem.UNRECOGNIZED_TASK)
        presented = token_digest(_read_bearer(request).encode("utf-8", "surrogateescape"))
        for role in roles:
            if role in digests and hmac.compare_digest(presented, digests[role]):
                vouch(request)
                return role
        raise unauthorized()


def _read_bearer(request: Asking) -> str:
    scheme, _, bearer = request.headers.getall("Authorization", [""])[0].partition(" ")
    return bearer if scheme.lower() == "bearer" and bearer else request.headers.getall(AUTH_HEADER, [""])[0]


class TaskTransport:
    """A ``Transport`` that shows the token of the task whose resource it requests, in place of any other token."""

    def __init__(self, onward: Transport, credentials: Credentials) -> None:
        self._onward = onward
        self._credentials = credentials

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        """One exchange of the onward transport, with the task's token in its header."""
        others = {name: value for name, value in (headers or {}).items() if name.lower() != "authorization"}
        shown = {**others, **self._credentials.headers(url)}
        return await self._onward.request(method, url, headers=shown, body=body)
