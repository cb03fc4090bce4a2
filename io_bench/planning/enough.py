"""How much a rank must write so that the clock shows the storage and not the start: found from a first write."""

from __future__ import annotations

import math
from collections.abc import Iterator

SHORT_SECONDS = 5.0
"""A choice: caches of drives and controllers hold a few seconds of writes, and starting takes a tenth of one."""
_MARGIN = 1.2
"""A larger write is faster, because it starts as often as a small one."""


def enough_bytes(tried_bytes: int, seconds: float) -> Iterator[int]:
    """Bytes with which an operation takes five seconds, where `tried_bytes` took `seconds`; then smaller ones.

    Whole multiples of what was tried, down to it: the first that fits is taken.

    >>> list(enough_bytes(256, 0.5)), list(enough_bytes(256, 6.0))
    ([3072, 1536, 768, 256], [256])
    """
    times = max(1, math.ceil(_MARGIN * SHORT_SECONDS / seconds)) if seconds < SHORT_SECONDS else 1
    while times > 1:
        yield times * tried_bytes
        times //= 2
    yield tried_bytes
