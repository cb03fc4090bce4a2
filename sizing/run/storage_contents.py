"""What is on the main storage after some saves: checkpoints, kept weights, exports and a publication."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sizing.run.workload import Chain
from sizing.storage.transfer import Numbers

MAX_COUNT = 2.0**53
"""Saves and checkpoints beyond are not counted: from here on a float has no next whole number."""


@dataclass(frozen=True, slots=True)
class StorageContents:
    """What saves leave on the storage. Capacity, disk counts, and the time when a disk is full are read from it.

    Kept are `num_newest` saves of the `chain`, the one being written included, and `num_best` full ones.
    `weights_bytes_per_save` is the mean of the weights of one save that stay for good. Of `export_every` saves one is
    exported, `num_exports` stay with the one being written, which works on `working_bytes` beside. Numbers may be
    arrays.
    """

    chain: Chain
    num_newest: Numbers
    num_best: Numbers = 0
    weights_bytes_per_save: Numbers = 0.0
    export_bytes: Numbers = 0
    export_every: Numbers = 1
    num_exports: Numbers = 0
    working_bytes: Numbers = 0
    published_bytes: Numbers = 0

    def checkpoints_bytes(self, num_saves: Numbers | None = None) -> Numbers:
        """Max bytes of checkpoints, with those that they need, until save n is being written; of any n by default.

        Source: `Chain.kept_bytes`, and of the saves before the newest so many full ones as are kept for quality.

        >>> contents = StorageContents(Chain(10, 10, full_every=1, num_needed=0), num_newest=2, num_best=1)
        >>> [int(contents.checkpoints_bytes(n)) for n in (1, 2, 3, 4)], int(contents.checkpoints_bytes())
        ([10, 20, 30, 30], 30)
        """
        best = self.num_best
        if num_saves is not None:
            best = np.clip(num_saves - self.num_newest, 0, self.num_best)
        return self.chain.kept_bytes(self.num_newest, num_saves=num_saves) + best * self.chain.full_bytes

    def exported_bytes(self, num_saves: Numbers | None = None) -> Numbers:
        """Max bytes of exports until save n is being written, the one being written included; of any n by default.

        Source: definition.

        >>> exports = {"export_bytes": 5, "export_every": 2, "num_exports": 2, "working_bytes": 3}
        >>> contents = StorageContents(Chain(10, 10, full_every=1, num_needed=0), num_newest=2, **exports)
        >>> [int(contents.exported_bytes(n)) for n in (1, 2, 4, 6)], contents.exported_bytes()
        ([0, 8, 13, 13], 13)
        """
        if num_saves is None:
            return self.export_bytes * self.num_exports + self.working_bytes
        number = np.minimum(np.floor(num_saves / self.export_every), self.num_exports)
        return self.export_bytes * number + np.minimum(number, 1) * self.working_bytes

    def whole_checkpoints_in(self, room_bytes: Numbers) -> Numbers:
        """Most checkpoints that so many bytes hold, with those that they need; the best of them are full.

        Source: `Chain.num_kept_in`.

        >>> int(StorageContents(Chain(100, 10, full_every=8, num_needed=7), num_newest=2).whole_checkpoints_in(999))
        38
        """
        best_bytes = self.num_best * self.chain.full_bytes
        best_alone = np.floor(np.maximum(0.0, room_bytes) / self.chain.full_bytes)
        beside_best = self.num_best + self.chain.num_kept_in(np.subtract(room_bytes, best_bytes))
        return np.minimum(MAX_COUNT, np.where(np.less(room_bytes, best_bytes), best_alone, beside_best))

    @property
    def undeleted(self) -> StorageContents:
        """The contents where no checkpoint is deleted: the weights that stay are those in the checkpoints."""
        chain = replace(self.chain, num_needed=0, needs_full_alone=False)
        return replace(self, chain=chain, num_newest=np.inf, num_best=0, weights_bytes_per_save=0.0)

    def num_saves_until_full(self, room_bytes: Numbers) -> Numbers:
        """Saves after which the contents pass so many bytes: n of the first that finds no room, infinite where none.

        Kept weights w of each save grow between saves too. With bytes K that are there at most, they pass a room R at
        (R - K) / w where all else is there by then. Source: definition; halving finds n, as the contents only grow.

        >>> plain = Chain(10, 10, full_every=1, num_needed=0)
        >>> contents = StorageContents(plain, num_newest=2, weights_bytes_per_save=0.5)
        >>> [float(contents.num_saves_until_full(room)) for room in (5, 15, 30)]
        [1.0, 2.0, 20.0]
        >>> float(StorageContents(plain, num_newest=2).num_saves_until_full(30))
        inf
        """
        weights, chain = np.asarray(self.weights_bytes_per_save, float), self.chain
        room = np.subtract(room_bytes, self.published_bytes, dtype=float)
        until_all = self.num_newest + self.num_best + chain.num_needed + (chain.full_every or 1) + 1
        until_all = np.maximum(until_all, self.export_every * self.num_exports)
        # Where none is deleted there is no end: then that many do not fit, however small they are.
        smallest = np.minimum(chain.full_bytes, chain.small_bytes)
        until_all = np.where(np.isinf(until_all), np.floor(np.maximum(0.0, room) / smallest) + 1, until_all)
        until_all = np.minimum(until_all, MAX_COUNT)

        def other_bytes(num_saves: Numbers) -> Numbers:
            return self.checkpoints_bytes(num_saves) + self.exported_bytes(num_saves)

        holds_all = other_bytes(until_all) + weights * until_all <= room
        fits, full = np.zeros(np.broadcast(until_all, room, weights, holds_all).shape), until_all
        while np.any(full - fits > 1):
            middle = np.floor((fits + full) / 2)
            has_room = other_bytes(middle) + weights * middle <= room
            fits, full = np.where(has_room, middle, fits), np.where(has_room, full, middle)
        before = np.where(holds_all, other_bytes(until_all), other_bytes(fits))
        grown = np.where(weights > 0, (room - before) / np.where(weights > 0, weights, 1.0), np.inf)
        return np.where(holds_all, grown, np.where(fits > 0, np.minimum(full, grown), full))
