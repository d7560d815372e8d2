"""What crosses between the parties of a simulation: a transcript of it, and the faults on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from infra.lab.kit.network import Exchange, Fault, FaultyTransport, InProcessTransport, Plan
from tacit.adapters.network.origins import origin_of
from tacit.ports import Clock, HttpResponse, Transport


@dataclass(frozen=True)
class Crossing:
    """One exchange as its caller saw it, begun ``at`` (POSIX seconds); ``response`` is ``None`` where it got none."""

    at: float
    caller: str
    callee: str
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    response: HttpResponse | None


class Wire:
    """Links between parties: each service has one under its name, all members of the group ``crowd`` share one.

    ``urls`` are the services' by name; members of the crowd are seen to come from ``crowd_address``. ``proxied`` is
    what a reverse proxy before every service makes of an answer.
    """

    def __init__(
        self, network: InProcessTransport, urls: Mapping[str, str], clock: Clock, crowd: str, crowd_address: str
    ) -> None:
        self.crossings: list[Crossing] = []
        self.proxied: Callable[[HttpResponse], HttpResponse] = lambda answer: answer
        self._urls = urls
        self._clock = clock
        self._crowd = crowd
        self._members: set[str] = set()
        self._names = {origin_of(url): name for name, url in urls.items()}
        self._faults: dict[tuple[str, str], list[tuple[str, Fault]]] = {}
        inner = dict.fromkeys(urls, network) | {crowd: network.seen_from(crowd_address)}
        self._links = {name: FaultyTransport(one, self._plan(name), clock=clock) for name, one in inner.items()}

    def transport(self, caller: str, link: str | None = None) -> Transport:
        """How ``caller`` reaches the others: over its own link, or as a member of the crowd."""
        if link == self._crowd:
            self._members.add(caller)
        return _Tap(caller, self._links[link or caller], self)

    def between(self, caller: str, callee: str, path: str = "") -> list[Crossing]:
        """What crossed from one party (or the crowd) to another, to URLs that hold ``path``."""
        callers = self._members if caller == self._crowd else {caller}
        return [one for one in self.crossings if one.caller in callers and one.callee == callee and path in one.url]

    def __iter__(self) -> Iterator[Crossing]:
        return iter(self.crossings)

    def name_of(self, url: str) -> str:
        """The service under a URL; empty for none of ours."""
        return self._names.get(origin_of(url), "")

    def now(self) -> float:
        """The simulated time, in POSIX seconds."""
        return self._clock.now()

    def break_next(self, caller: str, callee: str, fault: Fault, path: str) -> None:
        """One fault on the next exchange of this kind."""
        self._faults.setdefault((caller, callee), []).append((path, fault))

    def partition(self, caller: str, callee: str) -> None:
        """From now on nothing from ``caller`` reaches ``callee``."""
        self._links[caller].partition(self._urls[callee])

    def heal(self) -> None:
        """End every fault and partition."""
        self._faults.clear()
        for link in self._links.values():
            link.heal()

    def _plan(self, caller: str) -> Plan:
        def plan(exchange: Exchange) -> Fault | None:
            waiting = self._faults.get((caller, self.name_of(exchange.url)), [])
            at = next((at for at, (path, _) in enumerate(waiting) if path in exchange.url), None)
            return None if at is None else waiting.pop(at)[1]

        return plan


class _Tap:
    """Keeps a transcript of one caller's exchanges."""

    def __init__(self, caller: str, inner: Transport, wire: Wire) -> None:
        self._caller = caller
        self._inner = inner
        self._wire = wire

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        """Send the request and record the crossing, even if the request fails."""
        response: HttpResponse | None = None
        at, callee = self._wire.now(), self._wire.name_of(url)
        try:
            response = self._wire.proxied(await self._inner.request(method, url, headers=headers, body=body))
        finally:
            self._wire.crossings.append(Crossing(at, self._caller, callee, method, url, headers or {}, body, response))
        return response
