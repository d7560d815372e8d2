"""Modular arithmetic with public moduli: that of gmpy2 where it is installed, else the interpreter's own.

A device blinds a few tokens a day and does without gmpy2: blinding one then takes 4 ms instead of 0.3. Services and
simulated fleets have it. Signing with a private key is another matter (``tacit.tokens.issuer_key``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["invert", "invert_plainly", "mpz", "powmod"]


def invert_plainly(value: int, modulus: int) -> int:
    """The inverse of ``value``. Raises ``ZeroDivisionError`` where there is none, as gmpy2 does."""
    try:
        return pow(value, -1, modulus)
    except ValueError as error:
        raise ZeroDivisionError(str(error)) from error


if TYPE_CHECKING:
    from gmpy2 import invert, mpz, powmod
else:
    try:
        from gmpy2 import invert, mpz, powmod
    except ModuleNotFoundError:
        mpz, powmod, invert = int, pow, invert_plainly
