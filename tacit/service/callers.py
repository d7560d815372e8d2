"""Who may call what of a service (P7): one bearer token and, where the listener asks for them, certificates by name.

A service has *roles* of callers (an issuer: its attester and its operator). What a role must show is what is configured
for it: the bearer token whose digest the service holds, and, with ``listen.client_ca``, a certificate of that authority
whose subject alternative names (DNS or URI; the common name counts for nothing) hold one that
``listen.client_names`` lists for the role. A certificate of another of the authority's customers opens nothing: it is
refused, logged and counted, and the health check tells. Resources that need no role (key sets, the directory, the log)
are served to everybody, without a certificate too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from tacit.adapters.origins import is_loopback
from tacit.errors import UsageError
from tacit.service.auth import require_bearer, token_digest, unauthorized
from tacit.service.config import Listen, read_secret
from tacit.service.connection import vouch
from tacit.service.log import get_logger

_MOST_LOGGED = 64
_SAN_KINDS = frozenset({"DNS", "URI"})


@dataclass(frozen=True, slots=True)
class _Role:
    digest: bytes | None = field(repr=False)
    names: frozenset[str]


class Callers:
    """The roles of a service. ``digests``: by role, the digest of its bearer token, or None where it has none.
    ``local``: roles whose token counts on loopback alone, where no certificate is asked for (attester at issuer)."""

    def __init__(
        self, service: str, listen: Listen, digests: Mapping[str, bytes | None], *, local: frozenset[str] = frozenset()
    ) -> None:
        """Raises ``UsageError`` unless ``client_names`` speaks of every role, and of no other, where ``client_ca`` is
        set; an empty list asks no certificate of a role."""
        named = listen.client_names
        if listen.client_ca is None and named:
            raise UsageError("listen.client_names needs client_ca, whose certificates it is about")
        unknown = sorted(set(named).difference(digests))
        if unknown:
            raise UsageError(f"listen.client_names: {service} has no caller {unknown[0]}; it has {_listed(digests)}")
        missing = sorted(set(digests).difference(named))
        if listen.client_ca is not None and missing:
            raise UsageError(
                f'listen.client_names: add "{missing[0]}": ["NAME"] with the names in its certificate, '
                "or [] to ask it for none"
            )
        self.refused: Counter[str] = Counter()
        """Calls by role that showed a certificate of another name."""
        self._service = service
        self._roles = {role: _Role(digest, frozenset(named.get(role, ()))) for role, digest in digests.items()}
        self._local = local
        self._logged: set[tuple[str, ...]] = set()

    def guards(self, role: str) -> bool:
        """Whether anything is asked of this role."""
        found = self._roles.get(role)
        return found is not None and (found.digest is not None or bool(found.names))

    def require(self, request: web.Request, *roles: str) -> str:
        """The role, of ``roles``, that the request comes from. Raises ``Abort`` (401), one for all causes."""
        asked = {role: self._roles[role] for role in roles if self.guards(role)}
        shown = certificate_names(request)
        fitting = {role: one for role, one in asked.items() if not one.names or one.names & shown}
        if shown and not fitting and asked:
            self._refuse(next(iter(asked)), shown)
        for role, one in fitting.items():
            if one.digest is None:
                vouch(request)
                return role
        remote = request.remote or ""
        bearers = {
            one.digest: role
            for role, one in fitting.items()
            if one.digest is not None and (one.names or role not in self._local or is_loopback(remote))
        }
        if not bearers:
            raise unauthorized()
        return list(bearers.values())[require_bearer(request, *bearers)]

    def _refuse(self, role: str, shown: frozenset[str]) -> None:
        self.refused[role] += 1
        names = tuple(sorted(shown))
        if names not in self._logged and len(self._logged) < _MOST_LOGGED:
            self._logged.add(names)
            get_logger(self._service).warning("certificate_refused", role=role, names=list(names))


def read_digest(path: Path) -> bytes:
    """The digest of the bearer token in a secret file. Raises ``UsageError``."""
    return token_digest(read_secret(path))


def gateway_digests(tokens: Sequence[Path]) -> dict[str, bytes | None]:
    """The roles of a service's gateways and the digests of their tokens: "gateway", "gateway-2" and so on; one that is
    known by its certificate alone without a token. Raises ``UsageError``."""
    digests = [read_digest(path) for path in tokens]
    return {_gateway(number): digest for number, digest in enumerate(digests)} or {_gateway(0): None}


def _gateway(number: int) -> str:
    return "gateway" if number == 0 else f"gateway-{number + 1}"


def certificate_names(request: web.Request) -> frozenset[str]:
    """The DNS and URI names of the client's certificate, which the handshake has checked against ``client_ca``; empty
    without one. DNS names in lower case; a wildcard is a name like any other."""
    transport = request.transport
    certificate = None if transport is None else transport.get_extra_info("peercert")
    pairs = (certificate or {}).get("subjectAltName", ())
    return frozenset(value.lower() if kind == "DNS" else value for kind, value in pairs if kind in _SAN_KINDS)


CALLERS = web.AppKey("callers", Callers)


def _listed(roles: Mapping[str, object]) -> str:
    return ", ".join(sorted(roles)) or "none"
