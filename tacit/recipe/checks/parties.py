"""Rules on who takes part: operators, addresses, keys, slot."""

from __future__ import annotations

import ipaddress
import itertools
from urllib.parse import urlsplit

from tacit import hpke
from tacit.codec import unb64url
from tacit.errors import Refusal
from tacit.recipe.context import Context
from tacit.recipe.derive import hpke_config
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy

DIFFERENT_OPERATORS = (
    ("relay", "gateway"),
    ("leader", "helper"),
    ("attester", "issuer"),
    ("attester", "leader"),
    ("attester", "helper"),
    ("attester", "analyst"),
    ("issuer", "leader"),
    ("issuer", "helper"),
    ("issuer", "analyst"),
)
"""Pairs of parties that one operator must not run (P1)."""


def operators_equal(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """Parties whose separation the privacy rests on have different operators."""
    for first, second in DIFFERENT_OPERATORS:
        operator = getattr(recipe.parties, first).operator
        if operator == getattr(recipe.parties, second).operator:
            return f"{first} and {second} are both run by {operator}; they must have different operators"
    return None


def analyst_known(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The analyst, with this key, is one that the policy trusts."""
    if policy.analysts is None:
        return None
    analyst = recipe.parties.analyst
    if policy.analyst_key(analyst.operator) == unb64url(analyst.signing_key):
        return None
    return f"analyst {analyst.operator} with this signing key is not trusted"


def issuer_known(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The issuer, with this key, is one that the policy trusts."""
    if policy.issuers is None:
        return None
    issuer = recipe.parties.issuer
    if policy.issuer_key(issuer.name) == unb64url(issuer.signing_key):
        return None
    return f"issuer {issuer.name} with this signing key is not trusted"


def gateway_known(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The gateway, with this key, is one that the policy trusts."""
    if policy.gateways is None:
        return None
    gateway = recipe.parties.gateway
    if policy.gateway_key(gateway.operator) == unb64url(gateway.signing_key):
        return None
    return f"gateway {gateway.operator} with this signing key is not trusted"


def aggregators_known(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """Leader and helper, at these addresses and with these keys, are ones that the policy trusts."""
    if policy.aggregators is None:
        return None
    for role, party in (("leader", recipe.parties.leader), ("helper", recipe.parties.helper)):
        pin = policy.aggregators.get(party.operator)
        if pin is None or (pin.url, pin.signing_key) != (party.url, party.signing_key):
            return f"{role} {party.operator} at this address with this signing key is not trusted"
    return None


def issuer_matches(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The token's issuer is the one among the parties."""
    if recipe.token.issuer == recipe.parties.issuer.name:
        return None
    return f"the token is of {recipe.token.issuer}, the issuer is {recipe.parties.issuer.name}"


def urls(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """Addresses are https (http on loopback), absolute, without slash at the end, and the aggregators'
    differ."""
    parties = recipe.parties
    for party, url in (
        ("leader", parties.leader.url),
        ("helper", parties.helper.url),
        ("relay", parties.relay.url),
    ):
        reason = _url_problem(url, policy)
        if reason is not None:
            return f"{party}: {reason}"
    if parties.leader.url == parties.helper.url:
        return "leader and helper have the same address"
    return None


def _url_problem(url: str, policy: Policy) -> str | None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return "not a URL"
    if parts.scheme not in {"https", "http"} or not parts.hostname:
        return "not an absolute http(s) URL"
    if parts.username is not None or parts.password is not None or "?" in url or "#" in url:
        return "a URL here has no user, query or fragment"
    if url.endswith("/"):
        return "a URL here does not end with a slash"
    if parts.scheme == "http" and not policy.insecure_http and not is_loopback(parts.hostname):
        return "plain http is for loopback only; use https"
    return None


def is_loopback(host: str) -> bool:
    """Whether ``host`` names this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def hpke_keys(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The embedded HPKE configurations can be sealed to, and are three different keys (P2)."""
    seen: dict[bytes, str] = {}
    parties = recipe.parties
    for party, text in (
        ("leader", parties.leader.hpke_config),
        ("helper", parties.helper.hpke_config),
        ("collector", parties.collector.hpke_config),
    ):
        try:
            config = hpke_config(text)
        except Refusal as refusal:
            return f"{party}: {refusal.detail}"
        suite = hpke.Suite(config.kem_id, config.kdf_id, config.aead_id)
        if not suite.supported:
            return f"{party}: the HPKE suite is not supported; use X25519, HKDF-SHA256 and AES-128-GCM"
        if len(config.public_key) != hpke.PUBLIC_KEY_SIZE or not any(config.public_key):
            return f"{party}: not an X25519 key"
        if config.public_key in seen:
            return f"{party} and {seen[config.public_key]} have the same HPKE key"
        seen[config.public_key] = party
    return None


def signing_keys(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """No two parties sign with one key, unless one operator runs both."""
    holders = {party: getattr(recipe.parties, party) for party in ("analyst", "leader", "helper", "gateway", "issuer")}
    for (first, one), (second, other) in itertools.combinations(holders.items(), 2):
        if one.signing_key == other.signing_key and one.operator != other.operator:
            return f"{first} and {second} have the same signing key"
    return None


def slot_key(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The log has the directory of the token's (issuer, epoch), and the directory has the slot (P8)."""
    token, directory = recipe.token, context.directory
    if directory is None or (directory.issuer, directory.epoch) != (token.issuer, token.epoch):
        return f"the log has no directory of {token.issuer} for epoch {token.epoch}"
    if directory.spki(token.slot) is not None:
        return None
    return f"epoch {token.epoch} of {token.issuer} has no slot {token.slot}"


def slot_taken(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """A slot belongs to the first recipe that named it, for ever (P8)."""
    if context.slot_owner in {None, recipe.hash}:
        return None
    token = recipe.token
    return f"slot {token.slot} of epoch {token.epoch} belongs to another recipe; take a free one"
