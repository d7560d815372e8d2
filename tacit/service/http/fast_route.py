"""Fast routes: the few resources through which every contribution passes.

Such a request costs one parser call, one task and one write; ``tacit.service.http.application`` serves everything else.
A request is for a fast route if it is exactly ``POST``, the route's path without a query, and HTTP/1.1.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Protocol

from tacit import media_types
from tacit.errors import Abort
from tacit.service.http.problems import Answer, require_lines, status_abort, too_large
from tacit.service.http.reader import Body, Head


class Fields(Protocol):
    """The fields of a head by their names, in any case."""

    def getall(self, key: str, default: list[str], /) -> list[str]:
        """The values of the fields called ``key``, in their order."""
        ...


class Asking(Protocol):
    """What is known of a request besides its body; ``web.Request`` has all of this too."""

    @property
    def headers(self) -> Fields: ...
    @property
    def match_info(self) -> Mapping[str, str]: ...
    @property
    def remote(self) -> str | None: ...
    @property
    def transport(self) -> Any: ...
    @property
    def protocol(self) -> object: ...


Respond = Callable[[bytes], Awaitable[Answer]]
"""Called with the whole body; may raise what any handler may raise."""


@dataclass(frozen=True)
class FastRoute:
    """A resource that takes POST of one media type. ``admit`` is called once the head is read, refuses a request by
    raising, and returns the function that answers its body. ``limit``: most bytes of a body. A ``{name}`` in
    ``path`` stands for URL-safe letters; ``explain`` adds to a problem what it says about them."""

    path: str
    media_type: str
    limit: int
    admit: Callable[[Asking], Respond] = field(repr=False)
    explain: Callable[[Abort, Mapping[str, str]], None] = field(default=lambda _abort, _named: None, repr=False)

    @property
    def pattern(self) -> re.Pattern[str]:
        """What the path must be; groups are named as in ``path``."""
        parts = re.split(r"\{(\w+)\}", self.path)
        parts[::2] = map(re.escape, parts[::2])
        parts[1::2] = [f"(?P<{name}>[A-Za-z0-9_-]+)" for name in parts[1::2]]
        return re.compile("".join(parts))


class FastRequest:
    """A request to a fast route, as far as its head. ``respond`` awaits the body, where the head is admitted."""

    __slots__ = ("headers", "match_info", "protocol", "respond", "route", "transport")

    def __init__(self, route: FastRoute, head: Head, named: Mapping[str, str], protocol: object, wire: Any) -> None:
        self.route = route
        self.headers: Fields = head
        self.match_info = named
        self.protocol = protocol
        self.transport = wire
        self.respond: Respond | None = None

    @property
    def remote(self) -> str | None:
        """The peer's address; None where it is not known (a closed or Unix connection)."""
        peer = None if self.transport is None else self.transport.get_extra_info("peername")
        return str(peer[0]) if isinstance(peer, tuple) else None

    def admit(self, head: Head, body: Body) -> None:
        """Decide by its head whether the body may come. Raises what ``FastRoute.admit`` raises, and ``Abort``."""
        route = self.route
        self.respond = route.admit(self)
        fields = head.fields
        require_media_type(fields.get(b"content-type", ()), route.media_type, fields.get(b"content-encoding", ()))
        if b"content-length" in fields and int(fields[b"content-length"][0]) > route.limit:
            raise too_large(route.limit)
        body.limit = route.limit


class FastRoutes:
    """The fast routes of an application."""

    def __init__(self, routes: Sequence[FastRoute]) -> None:
        self._routes = [(route.pattern, route) for route in routes]

    def find(self, head: Head) -> tuple[FastRoute, Mapping[str, str]] | None:
        """The route of a request, and the named parts of its path."""
        if head.method == "POST" and head.version == "1.1":
            for pattern, route in self._routes:
                if match := pattern.fullmatch(head.path):
                    return route, match.groupdict()
        return None


@dataclass(frozen=True)
class Serving:
    """The fast routes of an application, and how it answers a request to one of them that is whole or was refused
    (None: one that was refused before its route was known). ``answer`` never raises; its last argument says that the
    request waited too long for its turn. ``date``: the time, as answers show it."""

    routes: FastRoutes
    answer: Callable[[FastRequest | None, Exception | None, Body, bool], Awaitable[Answer]] = field(repr=False)
    date: Callable[[], str] = field(repr=False)


def require_media_type(found: Sequence[str], media_type: str, codings: Sequence[str]) -> None:
    """Raise ``Abort`` (415) unless a request whose Content-Type fields are ``found`` has one, which says
    ``media_type``, and its Content-Encoding fields ``codings`` name no coding but ``identity``."""
    coded = bool(codings) and any(coding.lower() != "identity" for coding in codings)
    if len(found) != 1 or coded or not media_types.is_a(found[0], media_type):
        raise status_abort(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the body must be {media_type}")


def encode_answer(answer: Answer, date: str, *, last: bool, to_head: bool = False) -> bytes:
    """An answer as it is sent, with the fields that every answer has; ``last``: the connection ends with it;
    ``to_head``: to HEAD, so without its body. Raises ``ValueError`` for a field that would end early."""
    fields = "".join([f"{name}: {value}\r\n" for name, value in answer.headers.items()])
    require_lines(fields, len(answer.headers))
    end = "Connection: close\r\n\r\n" if last else "\r\n"
    length = len(answer.body)
    head = f"{_LINES[answer.status]}{fields}Date: {date}\r\nContent-Length: {length}\r\n{_ALWAYS}{end}"
    return head.encode() if to_head else head.encode() + answer.body


_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}
_ALWAYS = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
