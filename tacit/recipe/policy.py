"""A party's own policy: what it accepts in a recipe, whoever signed it.

One file format for operator, leader, helper and device (TOML or JSON). The defaults are the strictest that the
project's own demonstration passes; a missing member means the default, an unknown one is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import ROUND_DOWN, Decimal, localcontext
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import Field

from tacit.codec import unb64url
from tacit.errors import DecodeError, UsageError
from tacit.ledger.account import Account
from tacit.methods.registry import METHODS
from tacit.models.form import Cap
from tacit.models.parties import Key, Operator, Part, Parties, Url
from tacit.ohttp import LARGE_CLASSES, SIZE_CLASSES
from tacit.recipe.encoder_specs import MAX_SUM
from tacit.recipe.fields import parse_file
from tacit.recipe.member_types import AttributeName, AttributeValue, DecimalText, Positive
from tacit.tlog.canonical import validate
from tacit.tlog.checkpoint import LogPolicy, NoteKey
from tacit.tlog.cosignature import Quorum, witness_key


class AggregatorPin(Part):
    """An aggregator that the policy trusts: at this address, with this key."""

    url: Url
    """The aggregator's base URL."""
    signing_key: Key
    """The key that signs its opt-ins."""


class AccountLimit(Part):
    """What an account may spend in any period of a given length (P22)."""

    epsilon: DecimalText
    """Cap on the composition of the recipes' claims (a), by replacement."""
    delta: DecimalText
    """The delta at which they are composed."""
    window_seconds: Positive
    """Length of the period in seconds."""
    epsilon_with_relay: DecimalText | None = None
    """The same cap for claims (b); absent: they are not limited."""
    analysts: Annotated[tuple[Operator, ...], Field(strict=False, min_length=1)] | None = None
    """The analysts that may charge the account, each its share of it by the policy's ``shares`` (P38); absent: all that
    the policy names."""

    def model_post_init(self, context: Any, /) -> None:
        """Refuse an account into which no recipe fits: an epsilon that is not above 0, or a delta outside [1e-15,
        1)."""
        if any(Decimal(text) <= 0 for text in (self.epsilon, self.epsilon_with_relay) if text is not None):
            raise ValueError("epsilon must be above 0")
        if not Decimal("1e-15") <= Decimal(self.delta) < 1:
            raise ValueError("delta must be at least 1e-15 and below 1")


class WitnessLimit(Part):
    """The witnesses whose cosignatures a checkpoint must have (P29)."""

    keys: Annotated[tuple[str, ...], Field(strict=False, min_length=1, max_length=16)]
    """The witnesses, in the text form of verifier keys (type 0x04)."""
    k: Positive
    """How many of the witnesses must have cosigned."""
    max_age_seconds: Positive = 86_400
    """A cosignature older than this many seconds does not count."""

    def model_post_init(self, context: Any, /) -> None:
        """Refuse malformed keys, and a quorum that a log can split."""
        self.quorum(lambda: 0.0)

    def quorum(self, now: Callable[[], float]) -> Quorum:
        """The quorum as a check of notes, by the reader's clock."""
        return Quorum(tuple(witness_key(text) for text in self.keys), self.k, self.max_age_seconds, now)


UPLOADS = (SIZE_CLASSES[-1], *LARGE_CLASSES)
"""The size classes up to which policies may accept reports."""


def upload_limits(max_upload: int) -> dict[str, int]:
    """The members of a policy for reports up to the size class ``max_upload``: with a large one, sums of vectors as
    long as a release can be."""
    return {} if max_upload == UPLOADS[0] else {"max_upload": max_upload, "max_length": MAX_SUM}


MAX_WATCH_WORK = 1_000
"""A device's limit for everything that it watches, in multiplications of group elements a second: where one takes 100
microseconds including overhead, a tenth of a core."""


class Policy(Part):
    """Floors, caps and allow lists. Epsilons and delta are decimal strings."""

    min_batch_size: Positive = 100
    """The smallest minimum batch size B that a recipe may have."""
    max_batch_size: Positive = 10_000_000
    """Ceiling of B: above it, recomputing the claim would take a device seconds."""
    max_sampling_rate: DecimalText = "1"
    """Cap of q; q = 1 is never accepted where sampling is claimed (P19)."""
    max_population: Positive = 1_000_000
    """Most devices on which the claim of importance sampling may count (``importance.devices``), whatever a census
    attests. Set it to what the party knows about the population."""
    max_devices: Positive = 10_000_000
    """Most devices that may be asked: ``expected_contributions``, of which twice as many are released at most, is at
    most what so many send on average. Set it to the number of devices that the attester admits; the default is the
    largest population that was tried."""
    max_delta: DecimalText = "0.000001"
    """The largest delta that a recipe may claim."""
    max_epsilon_aggregator: DecimalText = "1"
    """Cap of claim (a): one aggregator, or the analyst."""
    max_epsilon_aggregator_with_relay: DecimalText | None = "4"
    """Cap of claim (b), the same with the relay; it includes what taking part reveals to the relay by itself. null: not
    capped."""
    max_epsilon_half_batch: DecimalText = "2"
    """Cap of claim (a) recomputed at B/2 (P17)."""
    max_epsilon_half_batch_with_relay: DecimalText | None = "8"
    """Cap of claim (b) recomputed at B/2; null: not capped."""
    max_series_epsilon_with_relay: DecimalText | None = None
    """Cap of the total claim (b) of a series whose rounds have independent coins: no sampling counts in it, so it grows
    with every round. null: not capped."""
    max_series_epsilon_local: DecimalText | None = None
    """Cap of the total claim (d) of such a series; ``unbounded`` is left to ``allow_unbounded_local``. null: not
    capped."""
    max_epsilon_local: DecimalText = "8"
    """Cap of claim (d): epsilon0."""
    allow_unbounded_local: bool = False
    """Accept recipes without a local guarantee: noise shares protect against one aggregator, not against both."""
    require_norm_proof: bool = False
    """Accept sums of vectors only if every device proves the Euclidean length of what it adds, noise included
    (Prio3L2BoundSum)."""
    max_duration: Positive = 31 * 86400
    """Longest report interval in seconds."""
    max_watch_seconds: Positive = 366 * 86400
    """Longest time in seconds from the first step in which devices watch an event to the beginning of the interval:
    devices keep a state for the recipe that long."""
    max_watch_work: Positive = MAX_WATCH_WORK
    """Most multiplications of group elements per second that watching may cost a device: for one recipe, and for
    everything that a device watches together."""
    max_upload: Literal[262_144, 1_048_576, 4_194_304] = 262_144
    """Largest size class of the request that carries a report. Above the default, the relay's and the gateway's
    ``max_request`` and the leader's ``max_body`` must be as large, and the relay can tell such reports by their size.
    """
    max_length: Positive = 1024
    """Most entries that a result may have."""
    max_messages: Positive = 5_000
    """Most messages of a device behind a shuffler: 5,000 of 51 bytes fit into the largest request to a gateway."""
    randomizers: Annotated[tuple[str, ...], Field(strict=False)] = tuple(METHODS)
    """The methods that a recipe may use."""
    populations: Annotated[tuple[str, ...], Field(strict=False)] = ("all",)
    """The populations that a recipe may ask."""
    attributes: dict[AttributeName, Annotated[tuple[AttributeValue, ...], Field(strict=False)]] = Field(
        default_factory=dict
    )
    """The attributes, none of them sensitive, and the values of each, by which a recipe may choose its audience (SA2
    5.5); empty: no recipe may choose, and there is no census."""
    min_audience: Positive = 10_000
    """Least number of devices that a census must have found for a recipe's criteria, at the low end of its error."""
    max_targeted_rate: DecimalText = "0.5"
    """Cap of q where a recipe has criteria: below 1, sampling hides from a device how large the audience is."""
    census_max_age_seconds: Positive = 90 * 86400
    """For how many seconds after its interval a census counts."""
    analysts: dict[Operator, Key] | None = None
    """Trusted analysts and their signing keys; absent: any analyst."""
    shares: dict[Operator, Annotated[int, Field(ge=1, le=1000)]] = Field(default_factory=dict)
    """How what the ``analysts`` have in common is divided among them (P38): the weight of each beside the others. An
    analyst that is not named here has 1; so by default all have the same."""
    reserved_epochs: Positive = 8
    """For how many epochs ahead a series keeps the token slots of its rounds."""
    issuers: dict[Operator, Key] | None = None
    """Trusted issuers, by the name in their challenges, and their directory keys; absent: the recipe's."""
    gateways: dict[Operator, Key] | None = None
    """Trusted gateways and the keys that sign their OHTTP configurations; absent: the recipe's."""
    aggregators: dict[Operator, AggregatorPin] | None = None
    """Trusted leaders and helpers; absent: the recipe's. A party that holds a credential for one of them must name them
    (``require_aggregators``), because credentials are sent to the addresses that a recipe names. A device holds none.
    """
    accounts: Annotated[dict[Operator, AccountLimit], Field(min_length=1)] | None = None
    """The population's privacy accounts by name; a recipe is charged to one of them. Absent: nothing is charged."""
    witnesses: WitnessLimit | None = None
    """The witnesses of the log; absent: everything signed by its key is accepted, as long as it extends what was
    seen."""
    insecure_http: bool = False
    """Accept http:// on other hosts than loopback (P7)."""

    def model_post_init(self, context: Any, /) -> None:
        """Refuse shares of analysts that the policy does not name."""
        others = sorted(self.shares.keys() - (self.analysts or {}).keys())
        if others:
            raise ValueError(f"shares names {', '.join(others)}, whom analysts does not name")

    def trusts(self, analyst: str, key: str) -> bool:
        """Whether this policy names the analyst with this key (base64url), or names no analysts at all."""
        return self.analysts is None or self.analysts.get(analyst) == key

    @property
    def weights(self) -> dict[str, int]:
        """The weight of each analyst that this policy names, by ``shares``; 1 for those that it leaves out."""
        return {name: self.shares.get(name, 1) for name in self.analysts or {}}

    def share(self, analyst: str, whole: int) -> int:
        """How much of ``whole`` an analyst may have, as ``share_of``; everything where this policy names none."""
        return whole if self.analysts is None else share_of(analyst, self.weights, whole)

    def log_policy(self, log_key: NoteKey, now: Callable[[], float]) -> LogPolicy:
        """Which signatures make a checkpoint of the log acceptable at ``now()``."""
        return LogPolicy(log_key, None if self.witnesses is None else self.witnesses.quorum(now))

    def account(self, name: str) -> Account | None:
        """The account of this name, with its limits as decimals; None if the policy has none of that name."""
        limit = (self.accounts or {}).get(name)
        if limit is None:
            return None
        beside = None if limit.epsilon_with_relay is None else Decimal(limit.epsilon_with_relay)
        return Account(name, Decimal(limit.epsilon), Decimal(limit.delta), limit.window_seconds, beside)

    def _chargers(self, name: str) -> dict[str, int] | None:
        """The weights of the analysts that may charge an account; None: anybody may charge all of it."""
        named = (self.accounts or {})[name].analysts
        if named is None:
            return None if self.analysts is None else self.weights
        return {one: self.shares.get(one, 1) for one in named if self.analysts is None or one in self.analysts}

    def may_charge(self, name: str, analyst: str) -> bool:
        """Whether the analyst may charge the account. If this policy does not have the account, everybody may."""
        weights = self._chargers(name) if name in (self.accounts or {}) else None
        return weights is None or analyst in weights

    def account_share(self, name: str, analyst: str) -> Account | None:
        """The part of an account that the analyst may charge: of epsilon and delta by its weight. So all parts together
        keep the account's promise, whatever each is spent on. None where the policy does not have the account or does
        not let the analyst charge it."""
        whole = self.account(name)
        if whole is None or not self.may_charge(name, analyst):
            return None
        return _share_of_account(whole, analyst, self._chargers(name) or {analyst: 1})

    def budget_share(self, budget: Account, analyst: str) -> Account | None:
        """The part of a device's ``budget`` that the analyst may charge, as ``account_share``: all of it where this
        policy names nobody, None where it names others."""
        if self.analysts is None:
            return budget
        return _share_of_account(budget, analyst, self.weights) if analyst in self.analysts else None

    def cap(self, cap: Cap | None) -> str | None:
        """The limit for this kind of claim at B; None: no limit."""
        if cap is Cap.AGGREGATE:
            return self.max_epsilon_aggregator
        if cap is Cap.AGGREGATE_WITH_RELAY:
            return self.max_epsilon_aggregator_with_relay
        return self.max_epsilon_local if cap is Cap.LOCAL else None

    def series_cap(self, cap: Cap | None) -> str | None:
        """The limit for this kind of total claim of a series with independent coins; None: no limit."""
        if cap is Cap.AGGREGATE_WITH_RELAY:
            return self.max_series_epsilon_with_relay
        return self.max_series_epsilon_local if cap is Cap.LOCAL else None

    def cap_at_half(self, cap: Cap | None) -> str | None:
        """The limit for this kind of claim at B/2; None: no limit."""
        if cap is Cap.AGGREGATE:
            return self.max_epsilon_half_batch
        return self.max_epsilon_half_batch_with_relay if cap is Cap.AGGREGATE_WITH_RELAY else None

    def require_aggregators(self) -> None:
        """Raise ``UsageError`` where no aggregators are named: for Leader, Helper and Collector at their start."""
        if self.aggregators is None:
            raise UsageError(
                'policy.aggregators is missing: add {"OPERATOR": {"url": ..., "signing_key": ...}} for leader and '
                "helper; credentials are sent to these addresses only"
            )

    def trusts_aggregators(self, parties: Parties) -> bool:
        """Whether all servers of a recipe are named here, at these addresses and with these keys."""
        pins, servers = self.aggregators or {}, parties.servers().values()
        return bool(servers) and all(
            pins.get(one.operator) == AggregatorPin(url=one.url, signing_key=one.signing_key) for one in servers
        )

    def issuer_key(self, name: str) -> bytes | None:
        """The 32 bytes of the key that signs a trusted issuer's directories; None for an issuer that is not trusted."""
        return _key(self.issuers, name)

    def gateway_key(self, name: str) -> bytes | None:
        """The 32 bytes of the key that signs a trusted gateway's key sets; None for one that is not trusted."""
        return _key(self.gateways, name)


def share_of(name: str, weights: Mapping[str, int], whole: int) -> int:
    """How much of ``whole`` one of those who share it may have: 1, and of what is left if everybody has 1 a part by its
    weight, rounded down; 0 for one without a weight. All shares together are at most ``whole``, unless that is less
    than 1 for each."""
    if name not in weights:
        return 0
    return min(whole, 1 + max(0, whole - len(weights)) * weights[name] // sum(weights.values()))


def _share_of_account(whole: Account, analyst: str, weights: Mapping[str, int]) -> Account:
    part = Fraction(weights[analyst], sum(weights.values()))
    if part == 1:
        return whole
    beside = None if whole.epsilon_with_relay is None else _part(whole.epsilon_with_relay, part)
    name = f"{whole.name}, share of {analyst}"
    return Account(name, _part(whole.epsilon, part), _part(whole.delta, part), whole.window_seconds, beside)


def _part(whole: Decimal, part: Fraction) -> Decimal:
    """``whole * part``, rounded down to 12 digits."""
    with localcontext(prec=12, rounding=ROUND_DOWN):
        return whole * part.numerator / part.denominator


def _key(keys: dict[str, str] | None, name: str) -> bytes | None:
    text = (keys or {}).get(name)
    return None if text is None else unb64url(text, length=32)


def parse_policy(data: bytes, name: str) -> Policy:
    """The policy in a file's bytes; ``name`` ends in .toml or .json and is used in errors. Raises UsageError."""
    try:
        return validate(Policy, parse_file(data, name), name)
    except DecodeError as error:
        raise UsageError(str(error)) from error
