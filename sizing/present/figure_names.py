"""Dotted names of figures and fields in words."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Sequence

from pydantic import JsonValue

FieldSpelling = Callable[[str, JsonValue], str]
"""How a medium writes a field and its value: as a flag, or as a file has them."""

_WHOLE = {"bytes_per_second": "bandwidth", "seconds": "time", "fraction": "share"}
_SHORT = (
    ("_bytes_per_second", " bandwidth"),
    ("_bytes_per_day", ""),
    ("_bytes", ""),
    ("_seconds_per_rank", " per rank"),
    ("_seconds", ""),
    ("_fraction", ""),
)
_PLAIN = {
    "rework_fraction": "lost to failures",
    "rework_seconds": "work repeated",
    "regroup_seconds": "time to regroup",
    "storage.preset": "known storage system",
    "capacity.usable_bytes": "usable, with room",
    "capacity.raw_bytes": "raw, of drives",
    "delta.fraction": "share that changes",
    "required.write_bytes_per_second": "write bandwidth (without goodput)",
}
"""Ends of names of which the words would be jargon. The fraction counts detection and restart beside the work."""
_ABBREVIATIONS = {name.lower(): name for name in ("MTBF", "GPU", "GPUs", "NICs", "EMA")}
_PLACE = re.compile(r"(\w+)s (\d+)\b")
"""A list of blocks and the place in it, which counts from 0."""
_BETWEEN = ("profile",)
"""Parts of a path that say nothing to a reader."""


def figure_words(name: str) -> str:
    """Write the last part of a dotted name in words, without its unit.

    >>> figure_words("storage.profile.write_bytes_per_second"), figure_words("interval.optimal_period_seconds")
    ('write bandwidth', 'optimal period')
    >>> figure_words("storage.profile.planning_seconds_per_rank")
    'planning per rank'
    >>> figure_words("tiers.0.rework_seconds"), figure_words("storage.preset")
    ('work repeated', 'known storage system')
    """
    for end, words in _PLAIN.items():
        if name.endswith(end):
            return words
    last = name.rsplit(".", 1)[-1]
    if last in _WHOLE:
        return _WHOLE[last]
    for unit, word in _SHORT:
        if last.endswith(unit):
            last = last.removesuffix(unit) + word
            break
    return " ".join(_ABBREVIATIONS.get(word, word) for word in last.replace("num_", "").split("_"))


def figure_name(name: str) -> str:
    """Write a dotted name as the label of a row: its block, and its last part in words.

    >>> figure_name("storage.profile.write_bytes_per_second"), figure_name("capacity.capacity_bytes")
    ('storage: write bandwidth', 'capacity')
    """
    block, words = block_words(name), figure_words(name)
    return f"{block}: {words}" if block not in ("", words) else words


def block_words(name: str) -> str:
    """Write the block of a dotted name in words; those of a list count from 1.

    >>> block_words("storage.profile.write_bytes_per_second"), block_words("checkpoint.tiers.0.keep")
    ('storage', 'checkpoint tier 1')
    """
    blocks = " ".join(block.replace("_", " ") for block in name.split(".")[:-1] if block not in _BETWEEN)
    return _PLACE.sub(lambda found: f"{found[1]} {int(found[2]) + 1}", blocks)


def list_names(names: Sequence[str]) -> str:
    """Write several dotted names as one label, with each block once.

    >>> list_names(["storage.profile.read_bytes_per_second", "storage.profile.write_bytes_per_second", "costs.total"])
    'storage: read bandwidth, write bandwidth; costs: total'
    """
    by_block = [(block, [*map(figure_words, of_it)]) for block, of_it in itertools.groupby(names, block_words)]
    if all(len(words) == 1 for _, words in by_block):
        return ", ".join(map(figure_name, names))
    return "; ".join(f"{block}: {', '.join(words)}" if block else ", ".join(words) for block, words in by_block)


def as_field(path: str, value: JsonValue) -> str:
    """Write a field and its value as a scenario file has them.

    >>> as_field("training.offload.optimizer", "host")
    'training.offload.optimizer: host'
    """
    return f"{path}: {value if isinstance(value, str) else json.dumps(value)}"
