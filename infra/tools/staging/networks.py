"""A network namespace for each organisation of a stack, joined by a bridge, with routes only to its peers.

Nothing can be reached without a route: devices reach relay and attester only, the helper reaches the log and the leader
that calls it. This shows that a deployment needs no other connections. It is not a firewall: root in a namespace can
add routes. The machine itself is connected to the bridge, so that a person's commands reach every organisation.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from infra.base.service_calls import DEVICES, SERVICE_CALLS
from infra.base.service_names import WITNESS, witness_name
from infra.stacks.options import FIRST_ADDRESS, ORGANISATIONS, organisation_of
from tacit.errors import UsageError
from tacit.lines import lines_of

CONSOLE, HUB = "console", "hub"
PLACES = (*ORGANISATIONS, DEVICES, CONSOLE)
BLOCK = "10.77"
"""The first two numbers of the addresses; the third number is derived from the stack's folder."""
CABLE = "eth0"


def place_of(party: str) -> str:
    """In which of ``PLACES`` a party of ``SERVICE_CALLS`` runs; all witnesses are in one."""
    return party if party == DEVICES else organisation_of(witness_name(1) if party == WITNESS else party)


SPEAK = frozenset((place_of(caller), place_of(called)) for caller, called in SERVICE_CALLS)
"""The places that need to speak with each other, from the legs of the protocol."""


def network_of(state_dir: Path) -> str:
    """The first three numbers of the addresses of the stack in ``state_dir``."""
    return f"{BLOCK}.{int(_mark(state_dir)[:2], 16)}"


def neighbours(place: str) -> tuple[str, ...]:
    """The places to which ``place`` has a route: those that the protocol has it speak with. The console and every
    organisation reach each other."""
    if place == CONSOLE:
        return ORGANISATIONS
    found = {other for pair in SPEAK if place in pair for other in pair} - {place}
    return tuple(one for one in PLACES if one in found or (one == CONSOLE and place != DEVICES))


def namespaces_of(state_dir: Path) -> Mapping[str, str]:
    """The namespace of each organisation of the stack in ``state_dir``, of its devices, and of the bridge."""
    return {place: f"tacit-{_mark(state_dir)}-{place}" for place in (*ORGANISATIONS, DEVICES, HUB)}


def project_of(state_dir: Path) -> str:
    """The project name of the containers of the stack in ``state_dir``."""
    return f"tacit-{_mark(state_dir)}"


def entering(namespace: str) -> list[str]:
    """The command prefix that runs a command in ``namespace``."""
    return ["ip", "netns", "exec", namespace]


def require_namespaces() -> None:
    """Raise ``UsageError`` if network namespaces cannot be made here."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        raise UsageError(
            "mode namespaces needs root and the program ip (apt-get install iproute2); --mode processes needs neither"
        )


@contextlib.contextmanager
def join_networks(state_dir: Path, network: str) -> Iterator[Mapping[str, str]]:
    """Make the namespaces of a stack, by place, for as long as the block runs; leftovers of an earlier run are
    replaced. Raises ``UsageError`` if the system refuses them."""
    require_namespaces()
    remove(state_dir)
    try:
        yield _join(state_dir, network)
    finally:
        remove(state_dir)


def remove(state_dir: Path) -> None:
    """Remove the namespaces of a stack with all their cables; missing ones are ignored."""
    there = {line.split()[0] for line in lines_of(_ip("netns", "list")) if line}
    for namespace in there & set(namespaces_of(state_dir).values()):
        _ip("netns", "delete", namespace)
    with contextlib.suppress(UsageError):  # it was removed with the bridge, unless the system is still removing it
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
    """A mark that tells the namespaces of one folder from those of another."""
    return hashlib.sha256(str(state_dir.absolute()).encode()).hexdigest()[:6]


def _ip(*arguments: str) -> str:
    return _run(["ip", *arguments])


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)  # noqa: S603 - our own arguments
    if done.returncode:
        raise UsageError(f"{' '.join(command)}: {done.stderr.strip() or 'refused'}")
    return done.stdout
