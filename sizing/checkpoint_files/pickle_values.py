"""What a pickle may hold when it is read as data: names, inert objects, and the limits on both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

MAX_PICKLE_BYTES = 128 * 1024**2
"""A torch.save file has about 127 bytes for a tensor, so this is a million of them; of `.metadata`, 700,000 shards."""
MAX_INSTRUCTIONS = 64_000_000
"""Twice as many as torch needs for MAX_PICKLE_BYTES, at 4 bytes each; half a minute at 0.5 us."""
MAX_OBJECTS = 16_000_000
"""Tuples, lists, dicts and objects, which take the most memory for the fewest bytes of a file."""
MAX_OPEN_MARKS = 1_000
"""torch nests a few levels; a file that opens marks alone would otherwise fill memory."""
MAX_NAME_CHARACTERS = 1_000
"""Characters of a tensor's name, or of a key on the way to it; the longest of real models have about 150."""
MAX_INTEGER_BYTES = 64
"""torch's own need 9; numbers without end take time in their square."""


class RefusedPickle(ValueError):
    """A pickle that is damaged, hostile or not one of torch's; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """A class or function that a pickle names: its dotted name and nothing else."""

    text: str


@dataclass(slots=True, eq=False)
class Inert:
    """An object that a pickle would have built: the name it calls, and what it would have been given.

    `state` is what `__setstate__` would have got, `items` what was appended to it or set in it, if anything.
    """

    name: str
    arguments: tuple[object, ...] = ()
    state: object = None
    items: list[object] | None = None

    def add(self, items: list[object]) -> None:
        """Keep what was appended to the object or set in it."""
        if self.items is None:
            self.items = []
        self.items.extend(items)


PERSISTENT = "persistent id"
"""The `name` of an Inert that stands for an object outside the pickle; its one argument is the id."""


def is_count(value: object) -> TypeGuard[int]:
    """Whether `value` is a number of elements or bytes that torch could have written: 0 to 2^63 - 1.

    >>> is_count(2**63 - 1), is_count(2**63), is_count(-1), is_count(True)
    (True, False, False, False)
    """
    return type(value) is int and 0 <= value < 2**63


def is_dictionary_key(value: object) -> bool:
    """Whether torch's own pickles could hold `value` as a key of a dict.

    Long numbers and tuples of tuples are refused because an attacker can choose their hashes, or make
    hashing them take for ever.

    >>> [is_dictionary_key(key) for key in ("step", 0, ("a", 1), 2**40, ((1,), 2))]
    [True, True, False, False, False]
    """
    if isinstance(value, tuple):
        return len(value) <= 8 and all(isinstance(item, (str, Name)) for item in value)
    if isinstance(value, int):
        return -(2**31) <= value < 2**31
    return value is None or isinstance(value, (str, Name, Inert))
