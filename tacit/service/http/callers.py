"""Who may call what of a service (P7): one bearer token and, where the listener asks for them, certificates by name.

A service has *roles* of callers (an issuer: its attester and its operator). The configuration says what a role must
show: one of the bearer tokens whose digests the service holds (``tacit.service.http.live_tokens``), and, with
``listen.client_ca``, a certificate of that authority with a subject alternative name (DNS or URI; the common name is
ignored) that ``listen.client_names`` lists for the role. A certificate that the authority issued to another customer
opens nothing: the call is refused, logged and counted, and the health check reports it. Resources that need no role
(key sets, the directory, the log) are served to everybody, also without a certificate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from tacit.adapters.network.origins import is_loopback
from tacit.errors import UsageError
from tacit.service.base.config import Listen
from tacit.service.base.log import get_logger
from tacit.service.http.auth import require_bearer, unauthorized
from tacit.service.http.fast_route import Asking
from tacit.service.http.live_tokens import Accepted, AcceptedTokens
from tacit.service.http.server import vouch

_MOST_LOGGED = 64
_SAN_KINDS = frozenset({"DNS", "URI"})


@dataclass(frozen=True, slots=True)
class _Role:
    tokens: Accepted | None = field(repr=False)
    names: frozenset[str]


class Callers:
    """The roles of a service. ``tokens``: by role, its bearer tokens, which may be replaced while the service runs, or
    None where it has none. ``local``: roles whose token is sufficient only on loopback, where no certificate is asked
    for (attester at issuer)."""

    def __init__(
        self,
        service: str,
        listen: Listen,
        tokens: Mapping[str, Accepted | None],
        *,
        local: frozenset[str] = frozenset(),
    ) -> None:
        """Raises ``UsageError`` unless ``client_names`` lists every role, and no other, where ``client_ca`` is set; an
        empty list asks no certificate of a role."""
        named = listen.client_names
        if listen.client_ca is None and named:
            raise UsageError("listen.client_names needs client_ca, the authority of those certificates")
        unknown = sorted(set(named).difference(tokens))
        if unknown:
            raise UsageError(f"listen.client_names: {service} has no caller {unknown[0]}; it has {_list_roles(tokens)}")
        missing = sorted(set(tokens).difference(named))
        if listen.client_ca is not None and missing:
            raise UsageError(
                f'listen.client_names: add "{missing[0]}": ["NAME"] with the names in its certificate, '
                "or [] to ask it for none"
            )
        self.refused: Counter[str] = Counter()
        """Number of calls by role with a certificate of another name."""
        self._service = service
        self._roles = {role: _Role(accepted, frozenset(named.get(role, ()))) for role, accepted in tokens.items()}
        self._local = local
        self._logged: set[tuple[str, ...]] = set()

    def guards(self, role: str) -> bool:
        """Whether this role must show anything."""
        known = self._roles.get(role)
        return known is not None and (known.tokens is not None or bool(known.names))

    def require(self, request: Asking, *roles: str) -> str:
        """The role, among ``roles``, of the request's sender. Raises ``Abort`` (401), the same for every cause."""
        asked = {role: self._roles[role] for role in roles if self.guards(role)}
        shown = certificate_names(request)
        fitting = {role: one for role, one in asked.items() if not one.names or one.names & shown}
        # a certificate of another name is worth a line for the operator; no certificate at all is every stranger
        if shown and not fitting and asked:
            self._refuse(next(iter(asked)), shown)
        # a role that is known by its certificate alone needs no token: the handshake has proved it
        for role, one in fitting.items():
            if one.tokens is None:
                vouch(request)
                return role
        remote = request.remote or ""
        bearers = {
            digest: role
            for role, one in fitting.items()
            if one.tokens is not None and (one.names or role not in self._local or is_loopback(remote))
            for digest in one.tokens.digests()
        }
        if not bearers:
            raise unauthorized()
        return list(bearers.values())[require_bearer(request, *bearers)]

    def troubles(self) -> list[Callable[[], str]]:
        """One function for each role: it describes what is wrong with the file of the role's tokens, or returns an
        empty text."""
        return [one.tokens.trouble for one in self._roles.values() if one.tokens is not None]

    def _refuse(self, role: str, shown: frozenset[str]) -> None:
        self.refused[role] += 1
        names = tuple(sorted(shown))
        if names not in self._logged and len(self._logged) < _MOST_LOGGED:
            self._logged.add(names)
            get_logger(self._service).warning("certificate_refused", role=role, names=list(names))


def tokens_of(files: Mapping[str, Path | None]) -> dict[str, Accepted | None]:
    """The bearer tokens of each role that has a file. Raises ``UsageError``."""
    return {role: AcceptedTokens(path) for role, path in files.items() if path is not None}


def gateway_roles(tokens: Sequence[Path]) -> tuple[str, ...]:
    """The roles of a service's gateways, one for each file of tokens: "gateway", "gateway-2" and so on. There is one
    role even without a file, since a gateway may be known by its certificate alone."""
    return ("gateway", *(f"gateway-{number}" for number in range(2, len(tokens) + 1)))


def gateway_tokens(tokens: Sequence[Path]) -> dict[str, Accepted | None]:
    """The tokens of the gateways' roles. Raises ``UsageError``."""
    roles = gateway_roles(tokens)
    return dict.fromkeys(roles) | tokens_of(dict(zip(roles, tokens, strict=False)))


def certificate_names(request: Asking) -> frozenset[str]:
    """The DNS and URI names of the client's certificate, which the handshake has verified against ``client_ca``; empty
    without one. DNS names are in lower case; a wildcard is compared like any other name."""
    transport = request.transport
    certificate = None if transport is None else transport.get_extra_info("peercert")
    pairs = (certificate or {}).get("subjectAltName", ())
    return frozenset(value.lower() if kind == "DNS" else value for kind, value in pairs if kind in _SAN_KINDS)


CALLERS = web.AppKey("callers", Callers)


def _list_roles(roles: Mapping[str, object]) -> str:
    return ", ".join(sorted(roles)) or "none"
