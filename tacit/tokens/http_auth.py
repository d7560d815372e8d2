"""The ``PrivateToken`` HTTP authentication scheme (RFC 9577 section 2): header values in and out.

Tacit carries its own tokens inside reports; these headers are for other origins and their clients.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tacit.codec import Reader, b64url, unb64url
from tacit.errors import DecodeError
from tacit.tokens.structures import Token, TokenChallenge

SCHEME = "PrivateToken"

_WORD = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_SEPARATORS = re.compile(r"[ \t,]*")
_PARAMETER = re.compile(rf'({_WORD})[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))(?=[ \t]*(?:,|$))')
_AUTH_SCHEME = re.compile(rf"({_WORD})(?=[ \t]|,|$)")
_TOKEN68 = re.compile(r"[ \t]+([A-Za-z0-9._~+/\-]+=*)(?=[ \t]*(?:,|$))")


def padded_b64url(data: bytes) -> str:
    """URL-safe base64 with padding, as Privacy Pass writes it."""
    text = b64url(data)
    return text + "=" * (-len(text) % 4)


def unpadded(text: str, what: str) -> bytes:
    """Inverse of ``padded_b64url``; absent padding is accepted, wrong padding is not. Raises
    ``DecodeError``."""
    bare = text.rstrip("=")
    if len(text) - len(bare) not in {0, -len(bare) % 4}:
        raise DecodeError(f"{what} has wrong base64 padding")
    return unb64url(bare, what=what)


@dataclass(frozen=True, slots=True)
class PrivateTokenChallenge:
    """One challenge of a ``WWW-Authenticate`` value. ``token_key`` is the issuer's key where the origin sent
    it, ``max_age`` seconds for which the challenge holds."""

    challenge: bytes
    token_key: bytes | None = None
    max_age: int | None = None

    @property
    def token_type(self) -> int:
        """The token type that the challenge requests. Raises ``DecodeError`` where there is none."""
        return Reader(self.challenge, "TokenChallenge").uint(2)

    def decode(self) -> TokenChallenge:
        """Decode the challenge; call it only for known token types. Raises ``DecodeError``."""
        return TokenChallenge.decode(self.challenge)

    def format(self) -> str:
        """The value of the ``WWW-Authenticate`` header."""
        parts = [f'{SCHEME} challenge="{padded_b64url(self.challenge)}"']
        if self.token_key is not None:
            parts.append(f'token-key="{padded_b64url(self.token_key)}"')
        if self.max_age is not None:
            parts.append(f"max-age={self.max_age}")
        return ", ".join(parts)


def _schemes(value: str) -> list[tuple[str, dict[str, str]]]:
    """Every challenge or credential of a header value with its parameters (RFC 9110 section 11)."""
    found: list[tuple[str, dict[str, str]]] = []
    at = _end(_SEPARATORS.match(value), 0)
    while at < len(value):
        if (scheme := _AUTH_SCHEME.match(value, at)) is not None:
            found.append((scheme[1].lower(), {}))
            at = _end(_TOKEN68.match(value, scheme.end()), scheme.end())
        elif found and (parameter := _PARAMETER.match(value, at)) is not None:
            name, quoted, bare = parameter.groups()
            if name.lower() in found[-1][1]:
                raise DecodeError("authentication header repeats a parameter")
            found[-1][1][name.lower()] = bare if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
            at = parameter.end()
        else:
            raise DecodeError("authentication header is not well formed")
        at = _end(_SEPARATORS.match(value, at), at)
    return found


def _end(match: re.Match[str] | None, otherwise: int) -> int:
    return otherwise if match is None else match.end()


def parse_www_authenticate(value: str) -> list[PrivateTokenChallenge]:
    """The ``PrivateToken`` challenges of a header value, in order; other schemes and unknown parameters are ignored.
    Raises ``DecodeError`` where the header or one of these challenges is malformed."""
    challenges = []
    for scheme, parameters in _schemes(value):
        if scheme != SCHEME.lower():
            continue
        if "challenge" not in parameters:
            raise DecodeError("PrivateToken challenge has no challenge parameter")
        key, age = parameters.get("token-key"), parameters.get("max-age")
        if age is not None and not (age.isascii() and age.isdecimal() and len(age) <= 10):
            raise DecodeError("max-age is not a number of seconds")
        challenges.append(
            PrivateTokenChallenge(
                challenge=unpadded(parameters["challenge"], "challenge"),
                token_key=None if key is None else unpadded(key, "token-key"),
                max_age=None if age is None else int(age),
            )
        )
    return challenges


def format_authorization(token: Token) -> str:
    """The ``Authorization`` value that redeems ``token``."""
    return f'{SCHEME} token="{padded_b64url(token.encode())}"'


def parse_authorization(value: str) -> bytes:
    """The token bytes of an ``Authorization`` value, of any token type. Raises ``DecodeError``."""
    schemes = _schemes(value)
    if len(schemes) != 1 or schemes[0][0] != SCHEME.lower() or "token" not in schemes[0][1]:
        raise DecodeError("authorization is not one PrivateToken credential")
    return unpadded(schemes[0][1]["token"], "token")
