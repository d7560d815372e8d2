"""A network namespace for each organisation of a stack, joined by a bridge, with a route to those it speaks with alone.

Nobody here can reach whom he has no route to: devices reach relay and attester and nobody else, the helper the log and
the leader that calls it. It is how a deployment is proved to need no more, not a firewall: who is root in a namespace
can add routes. The machine itself has a cable to the bridge, by which a person's commands reach every organisation.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from infra.legs import DEVICES, LEGS
from infra.service_names import WITNESS, witness_name
from infra.stack_options import FIRST_ADDRESS, ORGANISATIONS, organisation_of
from tacit.errors import UsageError

CONSOLE, HUB = "console", "hub"
PLACES = (*ORGANISATIONS, DEVICES, CONSOLE)
BLOCK = "10.77"
"""Of the addresses; the third number is of the stack's folder."""
CABLE = "eth0"


def place_of(party: str) -> str:
    """Of a party of ``LEGS``, one of ``PLACES``."""
    return party if party == DEVICES else organisation_of(witness_name(1) if party == WITNESS else party)


SPEAK = frozenset((place_of(caller), place_of(called)) for caller, called in LEGS)
"""Who needs to speak with whom, by place: the legs of the protocol."""


def network_of(state_dir: Path) -> str:
    """The first three numbers of the addresses of the stack in ``state_dir``."""
    return f"{BLOCK}.{int(_mark(state_dir)[:2], 16)}"


def neighbours(place: str) -> tuple[str, ...]:
    """To whom one of ``PLACES`` has a route."""
    if place == CONSOLE:
        return ORGANISATIONS
    found = {other for pair in SPEAK if place in pair for other in pair} - {place}
    return tuple(one for one in PLACES if one in found or (one == CONSOLE and place != DEVICES))


def namespaces_of(state_dir: Path) -> Mapping[str, str]:
    """The namespace of each organisation of the stack in ``state_dir``, of its devices, and of the bridge."""
    return {place: f"tacit-{_mark(state_dir)}-{place}" for place in (*ORGANISATIONS, DEVICES, HUB)}


def project_of(state_dir: Path) -> str:
    """What the containers of the stack in ``state_dir`` are called together."""
    return f"tacit-{_mark(state_dir)}"


def entering(namespace: str) -> list[str]:
    """What stands before a command that runs in ``namespace``."""
    return ["ip", "netns", "exec", namespace]


def require_namespaces() -> None:
    """Raise ``UsageError`` where network namespaces cannot be made."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        raise UsageError(
            "mode namespaces needs root and the program ip (apt-get install iproute2); --mode processes needs neither"
        )


@contextlib.contextmanager
def joined(state_dir: Path, network: str) -> Iterator[Mapping[str, str]]:
    """The namespaces of a stack, by place, while the block runs; what an earlier run left behind is replaced. Raises
    ``UsageError`` where the system refuses them."""
    require_namespaces()
    remove(state_dir)
    try:
        yield _join(state_dir, network)
    finally:
        remove(state_dir)


def remove(state_dir: Path) -> None:
    """Take the namespaces of a stack away, with every cable to them; those that are not there are none."""
    there = {line.split()[0] for line in _ip("netns", "list").splitlines() if line}
    for namespace in there & set(namespaces_of(state_dir).values()):
        _ip("netns", "delete", namespace)
    with contextlib.suppress(UsageError):  # it went with the bridge, unless the system is still at it
        _ip("link", "delete", _console(state_dir))


def _join(state_dir: Path, network: str) -> Mapping[str, str]:
    names = namespaces_of(state_dir)
    for namespace in names.values():
        _ip("netns", "add", namespace)
        _ip("-n", namespace, "link", "set", "lo", "up")
    hub = names[HUB]
    _ip("-n", hub, "link", "add", "bridge", "type", "bridge")
    _ip("-n", hub, "link", "set", "bridge", "up")
    for place in PLACES:
        within = ["-n", names[place]] if place in names else []
        cable = CABLE if place in names else _console(state_dir)
        other = ["netns", names[place]] if place in names else []
        _ip("link", "add", cable, *other, "type", "veth", "peer", "name", place, "netns", hub)
        _ip("-n", hub, "link", "set", place, "master", "bridge", "up")
        _ip(*within, "address", "add", f"{_address(place, network)}/32", "dev", cable)
        _ip(*within, "link", "set", cable, "up")
        for neighbour in neighbours(place):
            route = [f"{_address(neighbour, network)}/32", "dev", cable, "scope", "link"]
            _ip(*within, "route", "add", *route, "src", _address(place, network))
    return names


def _address(place: str, network: str) -> str:
    return f"{network}.{FIRST_ADDRESS + PLACES.index(place)}"


def _console(state_dir: Path) -> str:
    return f"tacit-{_mark(state_dir)}"


def _mark(state_dir: Path) -> str:
    """By which the namespaces of one folder differ from those of another."""
    return hashlib.sha256(str(state_dir.absolute()).encode()).hexdigest()[:6]


def _ip(*arguments: str) -> str:
    return _run(["ip", *arguments])


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own arguments
    if done.returncode:
        raise UsageError(f"{' '.join(command)}: {done.stderr.strip() or 'refused'}")
    return done.stdout
