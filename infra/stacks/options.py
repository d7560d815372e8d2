"""The options of a local stack, and what all stacks have in common: operators, credentials and attributes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from infra.base.service_names import witness_name
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
    "shuffler": "shuffler.example",
    "collector": "analyst.example",
    "admin": "analyst.example",
    **{witness_name(number): f"witness-{number}.example" for number in range(1, MAX_WITNESSES + 1)},
}
ORGANISATIONS = ("analyst", "issuer", "attester", "relay", "leader", "helper", "analyzer", "witnesses", "shuffler")
"""Who runs the services of a stack. Its witnesses count as one organisation, though each has its own name."""
SERVERS = ("leader", "helper", "analyzer", "shuffler")
"""The services that opt in to recipes and take reports."""
LOOPBACK = "127.0.0.1"
FIRST_ADDRESS = 11
CONTAINER_BLOCK, CONTAINER_NUMBERS = "10", (*range(80, 88), 89)
"""Addresses of container networks: 10.80 is the first organisation's, 10.88 Podman's own; the third number is of the
stack's folder."""
ACCOUNT = "default"
"""The only privacy account of a local stack, which ``tacit recipe new`` charges."""
ATTRIBUTES = {"locale": ("de", "en", "fr"), "os": ("linux", "mac")}
"""Attributes by which recipes of a local stack may choose their audience, with their values; its devices have them."""
KEY_ROTATION = 30 * 86400
BEARER_PREFIX = b"tacit-"
"""What every bearer token begins with, so that a person or a scanner can tell it from a key."""
OPERATED = ("collector", "leader", "helper", "analyzer", "shuffler", "attester", "issuer")
"""The services that give their operator exact counts on the listener that others use too."""
CREDENTIALS = {
    "issuer_client": ("attester", "issuer"),
    "gateway_client": ("relay", "gateway"),
    "gateway_uploads": ("gateway", "leader"),
    "gateway_reports": ("gateway", "analyzer"),
    "gateway_bundles": ("gateway", "shuffler"),
    "messages": ("shuffler", "analyzer"),
    "mixed_reports": ("shuffler", "leader"),
    "collector": ("collector", "leader"),
    "aggregates": ("collector", "analyzer"),
    "results": ("collector", "recipe_server"),
    "collections": ("admin", "collector"),
    **{f"operator_{name}": ("analyst", name) for name in OPERATED},
}
"""Bearer tokens by name: who presents the token, and the one service that accepts it. (The Leader's token for the
Helper is in their peer file.)"""


def operator_credential(service: str) -> str:
    """Return the name of the credential that a service's operator presents to that service only."""
    return f"operator_{service}"


def credentials_of(services: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return all credentials of a stack with these services, in the form of ``CREDENTIALS``: one more for the operator
    of each."""
    return {**CREDENTIALS, **{operator_credential(name): ("analyst", name) for name in services}}


def bearer_token(entropy: Entropy) -> bytes:
    """Make a new bearer token of 256 bits, in the form that its file holds."""
    return BEARER_PREFIX + b64url(entropy(32)).encode()


ADMINISTRATOR = "admin"
SECOND = "second-admin"
ANY_MESSAGES = 10**15
PEOPLE = {ADMINISTRATOR: "administrator", "analyst": "analyst", "approver": "approver", SECOND: "administrator"}
"""The roles of the admin service's first people, by name; each person has one key."""


@dataclass(frozen=True)
class StackOptions:
    """The options in which stacks differ.

    ``batch_floor``: the least B that policies accept; ``unbounded_local``: whether they accept noise shares;
    ``release_cap``: the most epsilon that they let a batch tell, if not the usual one; ``max_upload``: the largest size
    class of a report's request, 0 for the usual one;
    ``min_audience``: how many devices a census must attest for a recipe with criteria; ``account_*``: the budget of the
    only privacy account in any period of ``account_seconds``, also for the stack's own devices; ``witnesses``: how many
    cosign the log (policies require all of them, because with one of two a log could split its readers); ``tls``:
    whether every leg uses TLS, with certificates of the stack's own authority; ``network``: the first three numbers of
    the organisations' addresses in their own networks, empty if all are on loopback; ``containers``: whether each
    service is a container, with its own address in its organisation's network and its state apart from its keys;
    ``counted``: whether devices may have any number of messages behind a shuffler, which are counted instead of sent.
    """

    epoch_seconds: int = 86400
    slots_per_epoch: int = 2
    batch_floor: int = 100
    poll_seconds: float = 1.0
    idle_seconds: float = 0.5
    job_size: int = 256
    unbounded_local: bool = False
    release_cap: str = ""
    max_upload: int = 0
    min_audience: int = 20
    account_epsilon: str = "10"
    account_delta: str = "0.00001"
    account_seconds: int = 365 * 86400
    witnesses: int = 0
    tls: bool = False
    network: str = ""
    containers: bool = False
    counted: bool = False

    @property
    def tls_folder(self) -> str:
        """Folder of a service's certificate and authority, relative to its own folder. Containers get a separate one,
        because a container that mounts a single file does not see its replacement."""
        return "tls/" if self.containers else ""

    @property
    def state_folder(self) -> str:
        """Folder that a service writes to, relative to its own folder."""
        return "state" if self.containers else "."


def organisation_of(service: str) -> str:
    """Which of ``ORGANISATIONS`` runs a service of a stack: the first label of its operator's name; every witness is
    one of "witnesses". Raises ``KeyError`` for another service."""
    name = OPERATORS[service].partition(".")[0]
    return name if name in ORGANISATIONS else "witnesses"


def address_of(service: str, options: StackOptions) -> str:
    """Return the IPv4 address of a stack's service: its organisation's in ``options.network``, its own in its
    organisation's network of containers, or loopback."""
    if not options.network:
        return LOOPBACK
    organisation = organisation_of(service)
    if not options.containers:
        return f"{options.network}.{FIRST_ADDRESS + ORGANISATIONS.index(organisation)}"
    number = [name for name in OPERATORS if organisation_of(name) == organisation].index(service)
    return f"{organisation_network(organisation, options.network)}.{FIRST_ADDRESS + number}"


def organisation_network(organisation: str, network: str) -> str:
    """Return the first three numbers of an organisation's own network of containers."""
    return f"{CONTAINER_BLOCK}.{CONTAINER_NUMBERS[ORGANISATIONS.index(organisation)]}.{network.rpartition('.')[2]}"
