"""Bytes that nothing compresses, made at memory speed and made again where they are compared."""

from __future__ import annotations

import numpy as np
import xxhash

from io_bench.payload.byte_source import Bytes

POOL_BYTES = 4 << 20
"""It stays in the cache of a CPU, and is half a block of the direct engine. Larger, it fills from memory; smaller, keys
are drawn more often."""
_BYTES_PER_WORD = 8
"""Of an int64."""
_INT64 = np.iinfo(np.int64)


class SeededBytes:
    """Chunks that differ by label, repetition, name and number: one pool of random words, XORed with a key each.

    About ten times as fast as drawing every word.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        generator = np.random.default_rng(xxhash.xxh3_64_intdigest(f"{label}/pool".encode()))
        self.pool = generator.integers(_INT64.min, _INT64.max, POOL_BYTES // _BYTES_PER_WORD, dtype=np.int64)

    def key(self, repetition: int, name: str, chunk: int) -> int:
        """The key of one chunk of one name: a word."""
        digest = xxhash.xxh3_64_intdigest(f"{self._label}/{repetition}/{name}/{chunk}".encode())
        return digest + int(_INT64.min)

    def fill(self, out: Bytes, *, key: int, at: int = 0) -> None:
        """Fill `out` with the chunk of this key from `at` on, a multiple of 8."""
        pool = self.pool[at // _BYTES_PER_WORD :]
        num_words, rest = divmod(len(out), _BYTES_PER_WORD)
        np.bitwise_xor(pool[:num_words], key, out=out[: len(out) - rest].view(np.int64))
        if rest:
            out[-rest:] = np.bitwise_xor(pool[num_words : num_words + 1], key).view(np.uint8)[:rest]
