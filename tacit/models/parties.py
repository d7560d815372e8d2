"""The parties that recipes name: their common parts, the parties of every model, and those of an unknown model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import ConfigDict, Field, ValidationError

from tacit.tlog.fields import Blob, Body, Key32, Name

SHUFFLER = "shuffler"
"""The role of the shuffler, in every model that has one or may have one."""

Base64 = Blob
Key = Key32
Operator = Name
Url = Annotated[str, Field(pattern=r"^[\x21-\x7e]{1,512}$")]
"""ASCII text, never normalised: its bytes are authenticated."""


class Part(Body):
    """Base of every part of a recipe: frozen, strict types, no unknown members."""


class Analyst(Part):
    """The party that asks; its key signs the recipe."""

    operator: Operator
    signing_key: Key


class Server(Part):
    """A party that opts in and takes reports: its endpoint, encoded HpkeConfig and the key that signs its leaves."""

    operator: Operator
    url: Url
    hpke_config: Base64
    signing_key: Key

    @property
    def state_key_text(self) -> str | None:
        """The key (base64url) to which devices encrypt their state for this server; None in models without one."""
        return getattr(self, "state_key", None)


class Aggregator(Server):
    """Leader or helper: its DAP endpoint, encoded HpkeConfig and the key that signs its opt-in."""


class Collector(Part):
    """The only party that aggregate shares are sealed to."""

    operator: Operator
    hpke_config: Base64


class Relay(Part):
    """The OHTTP relay, which forwards encapsulated requests to the gateway and hides the devices' addresses from it."""

    operator: Operator
    url: Url


class Gateway(Part):
    """OHTTP gateway; the key signs its key configurations."""

    operator: Operator
    signing_key: Key


class Attester(Part):
    """The party that authenticates devices and grants each of them tokens."""

    operator: Operator


class Issuer(Part):
    """Token issuer; ``name`` is its name in challenges, the key signs its directories."""

    operator: Operator
    name: Operator
    signing_key: Key


class Parties(Part):
    """Everyone who takes part. A model's parties are a subclass that lists all of them, including the five of every
    model, in the order of documents (members of a base class would come first)."""

    if TYPE_CHECKING:
        analyst: Analyst
        relay: Relay
        gateway: Gateway
        attester: Attester
        issuer: Issuer

    def by_role(self) -> dict[str, Part]:
        """Return every party by the name of its role; an optional one only where the recipe names it."""
        named = ((name, getattr(self, name)) for name in type(self).model_fields)
        return {name: party for name, party in named if party is not None}

    def servers(self) -> dict[str, Server]:
        """The parties that take reports and opt in, by role, in the order of documents."""
        return {role: party for role, party in self.by_role().items() if isinstance(party, Server)}

    def server(self, role: str) -> Server | None:
        return self.servers().get(role)

    def having(self, member: str) -> dict[str, Any]:
        """This member's value for every party that has such a member, by role."""
        return {role: getattr(party, member) for role, party in self.by_role().items() if hasattr(party, member)}


class UnknownParties(Parties):
    """Parties of a model that this version does not know. Its further parties are kept unchanged, so that the recipe
    keeps its bytes and hash and can be refused by name."""

    model_config = ConfigDict(defer_build=True, extra="allow")

    analyst: Analyst
    relay: Relay
    gateway: Gateway
    attester: Attester
    issuer: Issuer

    def by_role(self) -> dict[str, Part]:
        """The parties of every model, and others that have the form of a server."""
        found = super().by_role()
        for role, party in (self.model_extra or {}).items():
            server = _server(party)
            if server is not None:
                found[role] = server
        return found


def _server(party: Any) -> Server | None:
    try:
        return Server.model_validate(party) if isinstance(party, Mapping) else None
    except ValidationError:
        return None
