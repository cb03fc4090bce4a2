"""Digests that tell a repeated request from another one."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def digest_of(document: bytes) -> bytes:
    """A digest of what a JSON text says, whatever its blanks and the order of its fields.

    >>> digest_of(b'{"a": 1, "b": 2}') == digest_of(b'{"b":2,"a":1}')
    True
    """
    parsed: Any = json.loads(document)
    return hashlib.sha256(json.dumps(parsed, sort_keys=True, separators=(",", ":")).encode()).digest()
