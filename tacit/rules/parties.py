"""Rules on who takes part: operators, addresses, keys, slot."""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from tacit import hpke
from tacit.codec import unb64url
from tacit.errors import DecodeError, Refusal
from tacit.models.forms import form_of
from tacit.recipe.context import Context
from tacit.recipe.derive import hpke_config
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.rules.detail import Detail, one_of
from tacit.signing import checked_public_key

_PASSING_URL = "https://host[:port][/path]"


def operators_equal(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """Parties whose separation the privacy rests on have different operators: relay and gateway; leader and helper;
    attester and issuer; neither attester nor issuer is leader, helper, analyzer or analyst; and a shuffler is none of
    the others (P1)."""
    operators = recipe.parties.having("operator")
    for first, second in form_of(recipe.model).different_operators:
        operator = operators.get(first)
        if operator is not None and operator == operators.get(second):
            return f"{first} and {second} are both run by {operator}; they must have different operators"
    return None


def analyst_known(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """``parties.analyst``, operator and key, is one of the policy's ``analysts``, where it lists any."""
    analyst = recipe.parties.analyst
    return _untrusted("analyst", analyst.operator, analyst.signing_key, policy.analysts)


def issuer_known(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """``parties.issuer``, name and key, is one of the policy's ``issuers``, where it lists any."""
    issuer = recipe.parties.issuer
    return _untrusted("issuer", issuer.name, issuer.signing_key, policy.issuers)


def gateway_known(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """``parties.gateway``, operator and key, is one of the policy's ``gateways``, where it lists any."""
    gateway = recipe.parties.gateway
    return _untrusted("gateway", gateway.operator, gateway.signing_key, policy.gateways)


def _untrusted(kind: str, name: str, key: str, trusted: Mapping[str, str] | None) -> str | None:
    """The refusal, unless the policy trusts that key or lists none: whose key it is, and which keys it trusts."""
    if trusted is None:
        return None
    known = trusted.get(name)
    if known is None:
        return f"{kind} {name} is not trusted; {_list_names(trusted)}"
    return None if known == key else f"{kind} {name} has signing key {key}; the policy trusts {known}"


def _list_names(names: Iterable[str]) -> str:
    return f"the policy trusts {', '.join(sorted(names)) or 'nobody'}"


def aggregators_known(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """Leader and helper, or the analyzer, with operator, URL and key, are among the policy's ``aggregators``, where it
    lists any."""
    if policy.aggregators is None:
        return None
    for role, party in recipe.parties.servers().items():
        pin = policy.aggregators.get(party.operator)
        if pin is None or (pin.url, pin.signing_key) != (party.url, party.signing_key):
            if pin is None:
                return f"{role} {party.operator} is not trusted; {_list_names(policy.aggregators)}"
            has, wanted = (f"{one.url} with signing key {one.signing_key}" for one in (party, pin))
            return f"{role} {party.operator} is at {has}; the policy trusts {wanted}"
    return None


def issuer_matches(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """``token.issuer`` is ``parties.issuer.name``."""
    if recipe.token.issuer == recipe.parties.issuer.name:
        return None
    return f"token.issuer is {recipe.token.issuer}, but the issuer is {recipe.parties.issuer.name}"


def urls(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The URLs of leader, helper (or analyzer) and relay are https (http on loopback, or with the policy's
    ``insecure_http``), absolute, without user, query, fragment or a slash at the end, and the aggregators' differ."""
    for party, url in recipe.parties.having("url").items():
        reason = _url_problem(url, policy)
        if reason is not None:
            return f"{party}: {reason}"
    for (first, one), (second, other) in itertools.combinations(recipe.parties.servers().items(), 2):
        if one.url == other.url:
            return f"{first} and {second} have the same address, {one.url}; each needs its own"
    return None


def _url_problem(url: str, policy: Policy) -> str | None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return f"not a URL; {_PASSING_URL} passes"
    if parts.scheme not in {"https", "http"} or not parts.hostname:
        return f"{parts.scheme or 'no scheme'}: not an absolute http(s) URL; {_PASSING_URL} passes"
    if parts.username is not None or parts.password is not None or "?" in url or "#" in url:
        return f"a URL here has no user, query or fragment; {_PASSING_URL} passes"
    if url.endswith("/"):
        return f"{url} ends with a slash; {url.rstrip('/')} passes"
    if parts.scheme == "http" and not policy.insecure_http and not is_loopback(parts.hostname):
        return f"{url} is plain http, for loopback only; {url.replace('http:', 'https:', 1)} passes"
    return None


def is_loopback(host: str) -> bool:
    """Whether ``host`` is ``localhost`` or a loopback address; no name is looked up."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def hpke_keys(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The HPKE configurations of leader, helper and collector, or the analyzer's, can be sealed to (X25519,
    HKDF-SHA256, AES-128-GCM), and are different keys (P2)."""
    seen: dict[bytes, str] = {}
    for party, text in recipe.parties.having("hpke_config").items():
        try:
            config = hpke_config(text)
        except Refusal as refusal:
            return f"{party}: {refusal.detail}; an HpkeConfig in base64url passes"
        suite = hpke.Suite(config.kem_id, config.kdf_id, config.aead_id)
        if not suite.supported:
            has = f"{config.kem_id:#06x}, {config.kdf_id:#06x}, {config.aead_id:#06x}"
            return f"{party}: HPKE suite {has} is not supported; use X25519, HKDF-SHA256 and AES-128-GCM"
        if config.public_key in seen:
            return f"{party} and {seen[config.public_key]} have the same HPKE key; each needs its own"
        seen[config.public_key] = party
    return None


def signing_keys_valid(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """Every signing key is a point of large order: under any other point a signature proves nothing."""
    for party, key in recipe.parties.having("signing_key").items():
        try:
            checked_public_key(unb64url(key))
        except DecodeError as error:
            return f"{party}: {error}; generate an Ed25519 key"
    return None


def signing_keys(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """No two parties sign with the same key, unless one operator runs both."""
    holders, operator = recipe.parties.having("signing_key"), recipe.parties.having("operator")
    for (first, one), (second, other) in itertools.combinations(holders.items(), 2):
        if one == other and operator[first] != operator[second]:
            operators = f"{operator[first]} and {operator[second]}"
            return f"{first} and {second} have the same signing key; {operators} each need their own"
    return None


def slot_key(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The log has the directory of the token's (issuer, epoch), and the directory has the slot (P8)."""
    token, directory = recipe.token, context.directory
    if directory is None or (directory.issuer, directory.epoch) != (token.issuer, token.epoch):
        due = f"the issuer publishes it before epoch {token.epoch - 1}"
        return f"the log has no directory of {token.issuer} for epoch {token.epoch}; {due}"
    if directory.spki(token.slot) is not None:
        return None
    slots = ", ".join(str(key.slot) for key in directory.keys)
    words = f"epoch {token.epoch} of {token.issuer} has no slot {token.slot}; it has {slots}"
    return Detail(words, *one_of("token.slot", [key.slot for key in directory.keys]))


def slot_taken(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """A slot belongs to the first recipe that named it, for ever (P8)."""
    if context.slot_owner in {None, recipe.hash}:
        return None
    token = recipe.token
    return f"slot {token.slot} of epoch {token.epoch} belongs to another recipe, or to a series; take a free one"
