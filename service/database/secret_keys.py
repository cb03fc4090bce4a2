"""Keys for their holders, of which the database has hashes alone: `PREFIX_ID_SECRET`.

The id finds the row; the secret is compared with the row's hash in constant time. A plain hash is enough: nobody
guesses 256 random bits, so there is nothing to slow down.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets


def new_secret() -> str:
    """A secret of 256 random bits."""
    return secrets.token_urlsafe(32)


def hash_of(secret: str) -> bytes:
    """What is kept of a secret."""
    return hashlib.sha256(secret.encode()).digest()


def is_secret_of(secret: str, kept: bytes) -> bool:
    """Whether a secret is the one of a hash."""
    return hmac.compare_digest(kept, hash_of(secret))


def parts_of(key: str, prefix: str) -> tuple[str, str]:
    """The id and the secret in a key; both empty where it does not have the prefix.

    >>> parts_of("ckpt_7_a_b", "ckpt"), parts_of("link_7_a", "ckpt")
    (('7', 'a_b'), ('', ''))
    """
    given, _, rest = key.partition("_")
    row_id, _, secret = rest.partition("_")
    return (row_id, secret) if given == prefix else ("", "")
