"""Which images there are, and whose code each of them holds.

An image holds the packages of its domain, what these import of the library, and the command that starts them. It holds
nothing of another domain: an attacker who breaks into the relay finds neither the code that opens messages nor the code
that reads keys.
"""

from __future__ import annotations

from dataclasses import dataclass

from infra.base.service_names import kind_of
from tacit.errors import UsageError

SERVE, AGENT, BACKUP = "infra.commands.serve", "infra.commands.agent", "infra.commands.backup"
STARTERS = ("infra.cli", "infra.base.probe")
"""In every image in addition: the command ``tacit``, and the probe of a service's readiness."""
ELSEWHERE = ("infra.tools.documents", "infra.tools.interop", "infra.stacks.ingest", "infra.lab")
"""Commands that concern several domains at once, which no image has."""
OWN = ("tacit", "services", "relay", "attester", "recipe_server", "client_agent", "infra")


@dataclass(frozen=True)
class Domain:
    """One image: its ``name``, the ``packages`` of the domain itself, and the modules of its ``command`` and of
    ``further`` commands."""

    name: str
    packages: tuple[str, ...]
    command: str = SERVE
    further: tuple[str, ...] = (BACKUP,)

    @property
    def roots(self) -> tuple[str, ...]:
        """The modules that are requested by name in addition to the packages."""
        return (*STARTERS, self.command, *self.further)


DOMAINS = (
    Domain("attester", ("attester",)),
    Domain("issuer", ("services.issuer",)),
    Domain("relay", ("relay",), further=()),
    Domain("gateway", ("services.gateway",)),
    Domain("log", ("recipe_server",)),
    Domain("leader", ("services.leader",)),
    Domain("helper", ("services.helper",)),
    Domain("analyzer", ("services.analyzer",)),
    Domain("shuffler", ("services.shuffler",)),
    Domain("analyst", ("services.collector", "services.admin")),
    Domain("witness", ("services.witness",)),
    Domain("devices", ("client_agent",), AGENT, ()),
)
DEVICES = DOMAINS[-1]
_OF_SERVICE = {"recipe_server": "log", "collector": "analyst", "admin": "analyst"}


def domain_called(name: str) -> Domain:
    """The domain called ``name``. Raises ``UsageError`` with the list of names."""
    for domain in DOMAINS:
        if domain.name == name:
            return domain
    raise UsageError(f"no image is called {name}; there are {', '.join(one.name for one in DOMAINS)}")


def domain_of(service: str) -> Domain:
    """The domain whose image runs a service of a stack. Raises ``UsageError`` for a service that no image runs."""
    kind = kind_of(service)
    return domain_called(_OF_SERVICE.get(kind, kind))


def foreign_to(domain: Domain) -> tuple[str, ...]:
    """The packages that belong only to other domains."""
    return tuple(package for other in DOMAINS if other != domain for package in other.packages)
