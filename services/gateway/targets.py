"""Where a request may go: the allow list of targets, and the Date that bounds the replay window."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from email.utils import formatdate, parsedate_to_datetime
from functools import lru_cache
from urllib.parse import unquote, urlsplit

from services.gateway.config import TargetRule
from tacit.adapters.network.origins import origin_of, require_secure_url
from tacit.bhttp import Fields, Request, field_value
from tacit.errors import Abort, DecodeError, UsageError
from tacit.service.http.live_tokens import NO_TOKEN, ShownToken

DATE_PROBLEM = "https://iana.org/assignments/http-problem-types#date"
TARGET_REFUSED = "urn:tacit:problem:target-not-allowed"
DATE_STEP = 60

_KNOWN_TARGETS = 1024
_KNOWN_LENGTH = 256
_DATE_LENGTH = 29

_AUTHORITY = re.compile(r"[A-Za-z0-9.:\[\]-]+")
_PATH = re.compile(r"(/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*)(?:\?[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?")


@dataclass(frozen=True, slots=True)
class Target:
    """A request's destination after the check. ``name`` is the URL without its query, ``origin`` its beginning,
    ``credential`` the token with which this gateway authenticates to the target."""

    url: str
    name: str
    origin: str
    credential: ShownToken = field(default=NO_TOKEN, repr=False, compare=False)


class AllowList:
    """Exact origins with path prefixes and methods. Built once. Raises ``UsageError`` for a rule that P7 forbids, and
    for a credential that others can read."""

    def __init__(self, rules: Sequence[TargetRule], *, insecure_http: bool) -> None:
        self._rules: list[tuple[str, TargetRule, ShownToken]] = []
        for rule in rules:
            origin = require_secure_url(rule.origin, insecure_http=insecure_http)
            parts = urlsplit(rule.origin)
            if parts.path or parts.query or parts.fragment:
                raise UsageError("targets: an origin has no path; put the path in path_prefix")
            self._rules.append((origin, rule, ShownToken(rule.bearer)))
        _require_one_credential(self._rules)
        self._known = lru_cache(maxsize=_KNOWN_TARGETS)(self._check)

    def troubles(self) -> list[Callable[[], str]]:
        """One function per target, which says what is wrong with the file of its credential, or returns the empty
        string."""
        return [credential.trouble for _, _, credential in self._rules]

    def frame_tokens(self) -> dict[str, ShownToken]:
        """The leaders that take frames: the URL in front of their resources, and what this gateway shows to them."""
        return {rule.leader_url: credential for _, rule, credential in self._rules if rule.frames}

    def target_of(self, request: Request) -> Target:
        """The destination of ``request``. Raises ``Abort`` (403), the same for every reason, and ``DecodeError`` if the
        request contradicts itself."""
        check = self._known if len(request.path) <= _KNOWN_LENGTH else self._check
        return check(request.method, request.scheme, _authority(request), request.path)

    def _check(self, method: str, scheme: str, authority: str, path: str) -> Target:
        match = _PATH.fullmatch(path)
        if match is None or not _plain(match[1]) or not _AUTHORITY.fullmatch(authority):
            raise refused_target()
        try:
            origin = origin_of(f"{scheme}://{authority}")
        except UsageError as error:
            raise refused_target() from error
        for allowed, rule, credential in self._rules:
            if origin == allowed and method in rule.methods and _below(match[1], rule.path_prefix):
                return Target(rule.origin + path, rule.origin + match[1], allowed, credential)
        raise refused_target()


def _require_one_credential(rules: Sequence[tuple[str, TargetRule, ShownToken]]) -> None:
    """Raise ``UsageError`` where uploads to a leader that takes frames are shown different credentials by its rule and
    one before it: a frame has one for all of its uploads."""
    for number, (origin, framed, _) in enumerate(rules):
        tasks = urlsplit(framed.leader_url).path + "/tasks/"
        first = rules[:number] if "POST" in framed.methods else rules
        for other, rule, _ in first if framed.frames else ():
            touches = _below(tasks, rule.path_prefix) or _below(rule.path_prefix, tasks)
            if other == origin and "POST" in rule.methods and touches and rule.bearer != framed.bearer:
                raise UsageError("targets: rules for one leader with frames need the same bearer file, or none")


def _authority(request: Request) -> str:
    """The authority of ``request``: its own or, if it has none, that of its Host field (RFC 9292 section 3.4). Raises
    ``DecodeError`` if both are there and differ (RFC 9113 section 8.3.1), and for a repeated Host."""
    host = field_value(request.fields, "host")
    if host is None or host == request.authority:
        return request.authority
    if request.authority and not _same_authority(request.scheme, request.authority, host):
        raise DecodeError("the Host field names another authority than the request")
    return request.authority or host


def _same_authority(scheme: str, one: str, other: str) -> bool:
    try:
        return origin_of(f"{scheme}://{one}") == origin_of(f"{scheme}://{other}")
    except UsageError:
        return False


def request_date(fields: Fields, now: float, window: int) -> int:
    """The request's Date in POSIX seconds: a whole minute within ``window`` seconds of ``now``.

    Raises ``Abort`` (400, problem type #date of RFC 9458 section 6.5.2) with the gateway's own Date for a client to
    adopt. That Date is rounded, so that neither side reveals the fraction of its clock.
    """
    try:
        value = field_value(fields, "date") or ""
    except DecodeError:
        value = ""
    seconds = _whole_minute(value) if len(value) <= _DATE_LENGTH else None
    if seconds is not None and abs(seconds - now) <= window:
        return seconds
    raise Abort(
        DATE_PROBLEM,
        "the Date must be present, rounded to a minute and close to the present time",
        status=400,
        title="The date of the request is not acceptable.",
        headers={"Date": http_date(now)},
    )


def http_date(now: float) -> str:
    """``now`` (POSIX seconds), rounded to the nearest minute, as an IMF-fixdate (RFC 9110 section 5.6.7)."""
    return formatdate((int(now) + DATE_STEP // 2) // DATE_STEP * DATE_STEP, usegmt=True)


@lru_cache(maxsize=256)
def _whole_minute(value: str) -> int | None:
    """POSIX seconds of an HTTP date in its canonical form that is a whole minute, or None. Cached, since the requests
    of an hour have few different dates."""
    try:
        seconds = int(parsedate_to_datetime(value).timestamp())
        canonical = formatdate(seconds, usegmt=True) == value
    except (ValueError, TypeError, OverflowError):
        return None
    return seconds if canonical and seconds % DATE_STEP == 0 else None


def _plain(path: str) -> bool:
    """Whether ``path`` has no empty or dot segments and no encoded separators, so that a prefix test is reliable."""
    segments = [unquote(segment) for segment in path.split("/")[1:]]
    return not any(
        segment in (".", "..") or "/" in segment or "\\" in segment or "%" in segment for segment in segments
    ) and all(segments[:-1])


def _below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(prefix if prefix.endswith("/") else prefix + "/")


def refused_target() -> Abort:
    """The answer (403) to a request that no target may get."""
    return Abort(TARGET_REFUSED, status=403, title="The gateway does not serve this target.")
