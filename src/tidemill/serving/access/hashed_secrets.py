"""Passwords and tokens as they are kept: nobody can get a secret back from the file.

A password is kept as PostgreSQL keeps it, so that SCRAM-SHA-256 can check it without ever seeing it. A token is 256
random bits, which nobody can guess, so one hash of it is enough, and checking it costs a microsecond.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from typing import NamedTuple

from tidemill.model.errors import InvalidArgument, SetupError

__all__ = ["ScramVerifier", "hash_of_token", "new_token", "scram_verifier"]

ITERATIONS = 32_768
"""Rounds of hashing that each guess of a password costs; PostgreSQL has 4,096."""

TOKEN_PREFIX = "tidemill_"
"""Tokens begin with it, so that scanners for leaked secrets find them."""

SHORTEST_PASSWORD = 8

_MECHANISM = "SCRAM-SHA-256"


class ScramVerifier(NamedTuple):
    """Salt, keys and iterations that SCRAM-SHA-256 checks a password by, in the order of ``scramp``."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    @property
    def text(self) -> str:
        """The form that PostgreSQL has in ``pg_authid``."""
        salt, stored, server = (base64.b64encode(part).decode() for part in self[:3])
        return f"{_MECHANISM}${self.iterations}:{salt}${stored}:{server}"

    @staticmethod
    def of(text: str) -> ScramVerifier:
        """The verifier that was written as ``text``; ``ValueError`` if it is none."""
        mechanism, costs, keys = text.split("$")
        if mechanism != _MECHANISM:
            raise ValueError("another mechanism")
        (iterations, salt), (stored, server) = costs.split(":"), keys.split(":")
        try:
            parts = [base64.b64decode(part, validate=True) for part in (salt, stored, server)]
        except binascii.Error as error:
            raise ValueError("no base64") from error
        return ScramVerifier(parts[0], parts[1], parts[2], int(iterations))

    def matches(self, password: str) -> bool:
        """True for the password that it was made of."""
        found = _verifier(password, self.iterations, self.salt)
        return found is not None and hmac.compare_digest(found.stored_key, self.stored_key)


def scram_verifier(password: str) -> ScramVerifier:
    """The verifier of a new password."""
    if len(password) < SHORTEST_PASSWORD:
        raise InvalidArgument(f"a password has {SHORTEST_PASSWORD} characters or more")
    made = _verifier(password, ITERATIONS, secrets.token_bytes(16))
    if made is None:
        raise InvalidArgument("the password has characters that no password can have")
    return made


def _verifier(password: str, iterations: int, salt: bytes) -> ScramVerifier | None:
    """Verifier of a password; None for characters that SCRAM does not allow."""
    try:
        from scramp import ScramException, ScramMechanism
    except ImportError:
        raise SetupError("passwords need the package scramp", hint="pip install 'tidemill[server]'") from None
    try:
        return ScramVerifier(*ScramMechanism(_MECHANISM).make_auth_info(password, iterations, salt))
    except ScramException:
        return None


def new_token() -> str:
    """A token that nobody has had before."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def hash_of_token(token: str) -> str:
    """The form in which a token is kept."""
    return hashlib.sha256(token.encode("utf-8", errors="surrogatepass")).hexdigest()
