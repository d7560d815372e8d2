"""What a local stack may be told, and what all of them have: its operators, credentials and attributes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from infra.service_names import witness_name
from tacit.codec import b64url
from tacit.ports import Entropy

MAX_WITNESSES = 9
OPERATORS = {
    "recipe_server": "analyst.example",
    "issuer": "issuer.example",
    "attester": "attester.example",
    "gateway": "analyst.example",
    "relay": "relay.example",
    "leader": "leader.example",
    "helper": "helper.example",
    "analyzer": "analyzer.example",
    "collector": "analyst.example",
    "admin": "analyst.example",
    **{witness_name(number): f"witness-{number}.example" for number in range(1, MAX_WITNESSES + 1)},
}
ORGANISATIONS = ("analyst", "issuer", "attester", "relay", "leader", "helper", "analyzer", "witnesses")
"""Who runs the services of a stack. Its witnesses count as one, though each has a name of its own."""
LOOPBACK = "127.0.0.1"
FIRST_ADDRESS = 11
CONTAINER_BLOCK, CONTAINER_FIRST = "10", 80
"""Of the networks of containers: 10.80 is the first organisation's; the third number is of the stack's folder."""
ACCOUNT = "default"
"""The one privacy account of a local stack: that of ``tacit recipe new``."""
ATTRIBUTES = {"locale": ("de", "en", "fr"), "os": ("linux", "mac")}
"""By which the recipes of a local stack may choose their audience; its devices have them."""
KEY_ROTATION = 30 * 86400
BEARER_PREFIX = b"tacit-"
"""Of every bearer token, so that a person or a scanner can tell one from a key."""
OPERATED = ("collector", "leader", "helper", "analyzer", "attester", "issuer")
"""The services that tell their operator exact counts on the listener that others use too."""
CREDENTIALS = {
    "issuer_client": ("attester", "issuer"),
    "gateway_client": ("relay", "gateway"),
    "gateway_uploads": ("gateway", "leader"),
    "gateway_reports": ("gateway", "analyzer"),
    "collector": ("collector", "leader"),
    "aggregates": ("collector", "analyzer"),
    "results": ("collector", "recipe_server"),
    "collections": ("admin", "collector"),
    **{f"operator_{name}": ("analyst", name) for name in OPERATED},
}
"""Bearer tokens by name: who presents one, and the one service that it opens. (The Leader's for the Helper is in their
peer file.)"""


def operator_credential(service: str) -> str:
    """The name of the credential that a service's own operator shows, there and nowhere else."""
    return f"operator_{service}"


def credentials_of(services: Iterable[str]) -> dict[str, tuple[str, str]]:
    """All of a stack with these services, as ``CREDENTIALS``: each has one of its operator's."""
    return {**CREDENTIALS, **{operator_credential(name): ("analyst", name) for name in services}}


def bearer_token(entropy: Entropy) -> bytes:
    """A fresh bearer token of 256 bits, as its file holds it."""
    return BEARER_PREFIX + b64url(entropy(32)).encode()


ADMINISTRATOR = "admin"
SECOND = "second-admin"
PEOPLE = {ADMINISTRATOR: "administrator", "analyst": "analyst", "approver": "approver", SECOND: "administrator"}
"""The first people of the admin service, by name with the role of each; each has one key."""


@dataclass(frozen=True)
class StackOptions:
    """What differs between the demo and a staging stack. ``batch_floor`` is the policies' least B; ``unbounded_local``:
    whether they accept noise shares; ``min_audience``: how many devices a census must attest for a recipe with
    criteria; the three of ``account`` are what the one privacy account allows in any period of so many seconds, and
    what the stack's own devices charge against; ``witnesses``: how many cosign its log, all of which its policies
    demand, for by one of two a log can split its readers; ``tls``: whether every leg is TLS, with certificates of the
    stack's own authority; ``network``: the first three numbers of the addresses that the organisations have in networks
    of their own, empty where all of them are on loopback; ``containers``: whether each service is one, with an address
    of its own in its organisation's network, and what it writes apart from its keys."""

    epoch_seconds: int = 86400
    slots_per_epoch: int = 2
    batch_floor: int = 100
    poll_seconds: float = 1.0
    idle_seconds: float = 0.5
    job_size: int = 256
    unbounded_local: bool = False
    min_audience: int = 20
    account_epsilon: str = "10"
    account_delta: str = "0.00001"
    account_seconds: int = 365 * 86400
    witnesses: int = 0
    tls: bool = False
    network: str = ""
    containers: bool = False

    @property
    def tls_folder(self) -> str:
        """Where a service's certificate and its authority lie, from its own folder: apart where a container has the
        folder of them, because a file that is replaced stays what it was for who has the file."""
        return "tls/" if self.containers else ""

    @property
    def state_folder(self) -> str:
        """What a service writes to, from its own folder."""
        return "state" if self.containers else "."


def organisation_of(service: str) -> str:
    """Which of ``ORGANISATIONS`` runs a service of a stack."""
    name = OPERATORS[service].partition(".")[0]
    return name if name in ORGANISATIONS else "witnesses"


def address_of(service: str, options: StackOptions) -> str:
    """The IPv4 address that a service of a stack has: its organisation's in ``options.network``, one of its own in its
    organisation's network, or loopback."""
    if not options.network:
        return LOOPBACK
    organisation = organisation_of(service)
    if not options.containers:
        return f"{options.network}.{FIRST_ADDRESS + ORGANISATIONS.index(organisation)}"
    number = [name for name in OPERATORS if organisation_of(name) == organisation].index(service)
    return f"{organisation_network(organisation, options.network)}.{FIRST_ADDRESS + number}"


def organisation_network(organisation: str, network: str) -> str:
    """The first three numbers of an organisation's own network of containers."""
    return f"{CONTAINER_BLOCK}.{CONTAINER_FIRST + ORGANISATIONS.index(organisation)}.{network.rpartition('.')[2]}"
