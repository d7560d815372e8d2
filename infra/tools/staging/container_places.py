"""Network, addresses and user of each container of a stack.

Every organisation has a network of its own, in which its services listen, and a second one for its database. Networks
are internal: no route leads out of them. A caller of an organisation has an address in its network, and so reaches that
organisation and nothing beyond it.
"""

from __future__ import annotations

from infra.backing.databases import WITHOUT_DATABASE
from infra.base.service_calls import DEVICES, SERVICE_CALLS
from infra.base.service_names import kind_of
from infra.stacks.layout import Layout
from infra.stacks.options import CONTAINER_BLOCK, ORGANISATIONS, address_of, organisation_network, organisation_of
from infra.tools.staging.networks import place_of

FIRST_CALLER, FIRST_DEVICES = 100, 150
"""The last numbers of the first addresses that services, and devices, get in networks that are not their own."""
DATABASE_FIRST, DATABASE_ADDRESS = 90, 10
FIRST_USER, FIRST_DATABASE_USER = 10_001, 10_101
PORT = 5432


def user_of(place: str) -> int:
    """The user and group id of the containers of an organisation, or of the devices."""
    return FIRST_USER + (*ORGANISATIONS, DEVICES).index(place)


def database_user(organisation: str) -> int:
    """User and group id of the database container, which no service of the organisation has."""
    return FIRST_DATABASE_USER + ORGANISATIONS.index(organisation)


def with_database(layout: Layout) -> dict[str, list[str]]:
    """The services that have a database by organisation, without organisations that have none."""
    found: dict[str, list[str]] = {}
    for name in layout.services:
        if name not in WITHOUT_DATABASE:
            found.setdefault(organisation_of(name), []).append(name)
    return found


def subnets(layout: Layout) -> dict[str, str]:
    """Every network of the stack with its addresses."""
    own = {name: organisation_network(name, layout.options.network) for name in ORGANISATIONS}
    behind = {data_network(name): _behind(name, layout) for name in with_database(layout)}
    return {name: f"{numbers}.0/24" for name, numbers in {**own, **behind}.items()}


def every_subnet(network: str) -> list[str]:
    """The address ranges of every network that a stack with ``network`` may have."""
    own = [organisation_network(name, network) for name in ORGANISATIONS]
    last = network.rpartition(".")[2]
    behind = [f"{CONTAINER_BLOCK}.{DATABASE_FIRST + number}.{last}" for number in range(len(ORGANISATIONS))]
    return [f"{numbers}.0/24" for numbers in (*own, *behind)]


def data_network(organisation: str) -> str:
    """The name of the second network of an organisation, which holds its database."""
    return f"{organisation}-data"


def called_by(name: str) -> tuple[str, ...]:
    """The organisations in whose networks a service of a stack, or its devices, have an address besides their own."""
    party = name if name == DEVICES else kind_of(name)
    places = [place_of(called) for caller, called in SERVICE_CALLS if caller == party]
    return tuple(dict.fromkeys(place for place in places if place != place_of(party)))


def legs_of(layout: Layout, name: str) -> dict[str, str]:
    """The addresses of a service by network; the one at which it listens comes first."""
    own, number = organisation_of(name), layout.services.index(name)
    found = {own: address_of(name, layout.options)}
    found |= {other: _leg(layout, other, FIRST_CALLER + number) for other in called_by(name)}
    if name not in WITHOUT_DATABASE:
        found[data_network(own)] = f"{_behind(own, layout)}.{FIRST_CALLER + number}"
    return found


def device_legs(layout: Layout, number: int) -> dict[str, str]:
    """The IPv4 addresses of the device container ``number`` (from 0), one in each network that devices call."""
    return {other: _leg(layout, other, FIRST_DEVICES + number) for other in called_by(DEVICES)}


def database_address(layout: Layout, organisation: str) -> str:
    """The IPv4 address of the organisation's database, in the network behind its services."""
    return f"{_behind(organisation, layout)}.{DATABASE_ADDRESS}"


def _leg(layout: Layout, organisation: str, last: int) -> str:
    return f"{organisation_network(organisation, layout.options.network)}.{last}"


def _behind(organisation: str, layout: Layout) -> str:
    number = DATABASE_FIRST + ORGANISATIONS.index(organisation)
    return f"{CONTAINER_BLOCK}.{number}.{layout.options.network.rpartition('.')[2]}"
