"""What only an issuer has and does: the private key of a slot, BlindSign (RFC 9474), and the issuer's side of issuance.

The private operation is blinded with fresh entropy on every call, uses CRT with constant-time exponentiation, and
releases a value only after checking ``s^e == m``, so that neither timing nor a fault reveals the factors.
"""

from __future__ import annotations

from dataclasses import dataclass

import gmpy2
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from gmpy2 import mpz

from tacit.errors import DecodeError, Fatal
from tacit.ports import Entropy
from tacit.tokens.blind_rsa import PUBLIC_EXPONENT, TOKEN_KEY_BITS, TokenKey, nonzero
from tacit.tokens.structures import TokenRequest, TokenResponse


@dataclass(frozen=True, repr=False)
class IssuerKey:
    """An issuer's private key with its CRT values. Has no repr on purpose."""

    token_key: TokenKey
    p: mpz
    q: mpz
    d_p: mpz
    d_q: mpz
    q_inv: mpz

    @classmethod
    def generate(cls, bits: int = TOKEN_KEY_BITS) -> IssuerKey:
        """A fresh key. The primes come from the cryptographic library's own generator, seeded by the system."""
        return cls.from_private_key(rsa.generate_private_key(PUBLIC_EXPONENT, bits))

    @classmethod
    def from_private_key(cls, key: rsa.RSAPrivateKey) -> IssuerKey:
        """The key whose factors are those of a loaded one; its numbers are not checked here."""
        numbers = key.private_numbers()
        return cls._from_factors(TokenKey.from_public_key(key.public_key()), mpz(numbers.p), mpz(numbers.q))

    @classmethod
    def from_primes(cls, p: int, q: int, e: int = PUBLIC_EXPONENT) -> IssuerKey:
        """The key of two primes, of any size; whether they are prime is not checked."""
        public = rsa.RSAPublicNumbers(e, p * q).public_key()
        return cls._from_factors(TokenKey.from_public_key(public), mpz(p), mpz(q))

    @classmethod
    def _from_factors(cls, token_key: TokenKey, p: mpz, q: mpz) -> IssuerKey:
        return cls(
            token_key=token_key,
            p=p,
            q=q,
            d_p=gmpy2.invert(token_key.e, p - 1),
            d_q=gmpy2.invert(token_key.e, q - 1),
            q_inv=gmpy2.invert(q, p),
        )

    @classmethod
    def from_pem(cls, pem: bytes) -> IssuerKey:
        """Load an unencrypted PEM private key of any origin; its numbers are checked. Raises ``DecodeError``."""
        try:
            return cls._check(serialization.load_pem_private_key(pem, password=None))
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise DecodeError("issuer key cannot be loaded") from error

    @classmethod
    def from_der(cls, der: bytes) -> IssuerKey:
        """An unencrypted PKCS#8 key that ``to_der`` wrote. Raises ``DecodeError``.

        Primality is not tested again: that takes longer than making a key. A wrong factor signs nothing, since
        ``blind_sign`` checks every value.
        """
        try:
            key = serialization.load_der_private_key(der, password=None, unsafe_skip_rsa_key_validation=True)
            return cls._check(key)
        except (ValueError, TypeError, ArithmeticError, UnsupportedAlgorithm) as error:
            raise DecodeError("issuer key cannot be loaded") from error

    @classmethod
    def _check(cls, key: object) -> IssuerKey:
        if not isinstance(key, rsa.RSAPrivateKey):
            raise DecodeError("issuer key is not an RSA key")
        loaded = cls.from_private_key(key)
        if loaded.p * loaded.q != loaded.token_key.n or not (loaded.p > 1 and loaded.q > 1):
            raise DecodeError("issuer key's factors do not make its modulus")
        return loaded

    def to_der(self) -> bytes:
        """Unencrypted PKCS#8, for a store that only its owner can read."""
        d = int(gmpy2.invert(self.token_key.e, gmpy2.lcm(self.p - 1, self.q - 1)))
        numbers = rsa.RSAPrivateNumbers(
            p=int(self.p),
            q=int(self.q),
            d=d,
            dmp1=int(self.d_p),
            dmq1=int(self.d_q),
            iqmp=int(self.q_inv),
            public_numbers=self.token_key.verifier.public_numbers(),
        )
        return numbers.private_key(unsafe_skip_rsa_key_validation=True).private_bytes(
            serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


def blind_sign(private_key: IssuerKey, blinded_message: bytes, entropy: Entropy) -> bytes:
    """The blind signature (RFC 9474 section 4.3). Run by the issuer.

    Raises ``DecodeError`` for a message of the wrong size or not below the modulus, ``Fatal`` where the
    check of the computed value fails (a hardware fault: nothing is released).
    """
    public, key = private_key.token_key, private_key
    n, e = public.n, public.e
    m = public.number_of(blinded_message)
    r = nonzero(n, entropy)
    z = m * gmpy2.powmod(r, e, n) % n
    s_p = gmpy2.powmod_sec(z % key.p, key.d_p, key.p)
    s_q = gmpy2.powmod_sec(z % key.q, key.d_q, key.q)
    s = s_q + key.q * ((s_p - s_q) * key.q_inv % key.p)
    s = s * gmpy2.invert(r, n) % n
    if gmpy2.powmod(s, e, n) != m:
        raise Fatal("blind signature failed its own check")
    return int(s).to_bytes(public.modulus_len, "big")


def issue(key: IssuerKey, request: TokenRequest, entropy: Entropy) -> TokenResponse:
    """Sign the blinded message of the request. The caller has chosen ``key`` by the request's truncated key id.

    Raises ``DecodeError`` where the blinded message is not below the modulus. Run by the issuer.
    """
    return TokenResponse(blind_sign(key, request.blinded_msg, entropy))
