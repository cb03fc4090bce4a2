"""Names of equal tensors as one pattern: `model.layers.{0..60}.mlp.experts.{0..383}.up_proj.weight`.

Braces are as in a shell: `{0..60}` is a run, `{3..47..4}` every fourth number, `{0,5,9}` a list, which may hold runs
too.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sizing.model.inventory import progression

MAX_NUMBER = 9_999
"""Max number in a name: as many layers and experts as an architecture may have, counted from 0."""
MAX_PLACES = 8
"""Max numbers in a name; those of transformers have up to four."""

_PLACE = re.compile(
    r"\{([^{}]*)\}"  # as a pattern has it
    r"|(?:(?<=[./])|^)(\d+)(?=[./]|$)"  # a component of the name
    r"|(?:(?<=layers_)|(?<=layer_)|(?<=blocks_)|(?<=block_)|(?<=experts_)|(?<=expert_))(\d+)(?=[./]|$)"
    r"|(?<=\.weight)(\d+)$"  # experts of Megatron's grouped matrices: weight0, weight1
)
_ITEM = re.compile(r"(\d+)(?:\.\.(\d+)(?:\.\.(\d+))?)?")


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A name cut at its numbers. `texts` has one item more than `numbers`, the possible numbers between two texts."""

    texts: tuple[str, ...]
    numbers: tuple[Sequence[int], ...]

    @property
    def num_names(self) -> int:
        """Number of names that the pattern stands for."""
        return math.prod(map(len, self.numbers))

    def __str__(self) -> str:
        """Write the pattern with its numbers in braces."""
        places = (*map(_write_numbers, self.numbers), "")
        return "".join(text + place for text, place in zip(self.texts, places, strict=True))


@functools.lru_cache(maxsize=8192)
def name_pattern(name: str) -> NamePattern:
    """Cut a name or pattern at its numbers.

    Raises ValueError, with a reason, if braces do not hold numbers.

    >>> name_pattern("model.layers.{0..2}.mlp.experts.{0,4..8..2}.up.weight").num_names
    12
    >>> str(name_pattern("model.layers.7.mlp.fc1.weight"))
    'model.layers.7.mlp.fc1.weight'
    """
    texts, numbers, end = [], [], 0
    for match in _PLACE.finditer(name):
        texts.append(name[end : match.start()])
        numbers.append(_read_numbers(next(text for text in match.groups() if text is not None)))
        end = match.end()
    texts.append(name[end:])
    if any(set(text) & set("{}") for text in texts):
        raise ValueError("braces must stand in pairs around numbers, such as {0..31}")
    if len(numbers) > MAX_PLACES:
        raise ValueError(f"at most {MAX_PLACES} numbers may stand")
    return NamePattern(tuple(texts), tuple(numbers))


def products(places: Iterable[tuple[int, ...]]) -> Iterator[tuple[Sequence[int], ...]]:
    """Split distinct tuples of numbers into products: a choice for each place, together exactly the tuples.

    >>> list(products([(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]))
    [(range(0, 2), range(0, 2)), (range(2, 3), range(0, 1))]
    """
    by_first: dict[int, list[tuple[int, ...]]] = {}
    for place in places:
        by_first.setdefault(place[0], []).append(place[1:])
    if not any(any(rests) for rests in by_first.values()):
        yield (progression(sorted(by_first)),)
        return
    firsts: dict[frozenset[tuple[int, ...]], list[int]] = {}
    for first, rests in by_first.items():
        firsts.setdefault(frozenset(rests), []).append(first)
    for rest, some in firsts.items():
        for product in products(rest):
            yield (progression(sorted(some)), *product)


def name_in_two(patterns: Iterable[NamePattern]) -> str | None:
    """Return a name that two of the patterns share; None if each name has one pattern.

    >>> name_in_two(map(name_pattern, ["h.{0..3}.fc.weight", "h.{4..7}.fc.weight", "h.{2,5}.fc.weight"]))
    'h.2.fc.weight'
    """
    alike: dict[tuple[str, ...], list[tuple[Sequence[int], ...]]] = {}
    for pattern in patterns:
        alike.setdefault(pattern.texts, []).append(pattern.numbers)
    for texts, some in alike.items():
        order = sorted(range(len(texts) - 1), key=lambda place: sum(len(numbers[place]) for numbers in some))
        shared = _find_in_two([tuple(numbers[place] for place in order) for numbers in some])
        if shared is not None:
            by_place = sorted(zip(order, shared, strict=True))
            return str(NamePattern(texts, tuple((number,) for _, number in by_place)))
    return None


def _find_in_two(products: Sequence[tuple[Sequence[int], ...]]) -> tuple[int, ...] | None:
    """Find numbers that two of some products of one length have in common."""
    if len(products) < 2 or not products[0]:
        return () if len(products) > 1 else None
    if len(products[0]) == 1:
        return _find_repeated(numbers for (numbers,) in products)
    holders: dict[int, list[int]] = {}
    for place, product in enumerate(products):
        for number in product[0]:
            holders.setdefault(number, []).append(place)
    firsts = {tuple(some): number for number, some in holders.items() if len(some) > 1}
    for some, first in firsts.items():
        rest = _find_in_two([products[place][1:] for place in some])
        if rest is not None:
            return (first, *rest)
    return None


def _find_repeated(runs: Iterable[Sequence[int]]) -> tuple[int] | None:
    seen: set[int] = set()
    for numbers in runs:
        if common := seen.intersection(numbers):
            return (min(common),)
        seen.update(numbers)
    return None


def _read_numbers(text: str) -> Sequence[int]:
    """Read the numbers in a pair of braces, in order."""
    runs = [_read_run(item) for item in text.split(",")]
    if len(runs) == 1:
        return runs[0]
    if any(left[-1] >= right[0] for left, right in itertools.pairwise(runs)):
        raise ValueError(f"{{{text[:60]}}} must hold different numbers in order")
    return progression([number for run in runs for number in run])


def _read_run(item: str) -> range:
    match = _ITEM.fullmatch(item.strip())
    if match is None:
        raise ValueError(f"{item.strip()[:60]!r} in braces must be a number or a run of numbers, such as 0..31")
    first, last, step = (None if text is None else int(text) for text in match.groups())
    run = range(first or 0, (first if last is None else last or 0) + 1, step or 1)  # type: ignore[operator]  # the first is there
    if not run or run[-1] > MAX_NUMBER or step == 0:
        raise ValueError(f"{item.strip()[:60]!r} must count upwards, to at most {MAX_NUMBER:,}")
    return run


def _write_numbers(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return str(numbers[0])
    if isinstance(numbers, range):
        return "{" + _write_run(numbers) + "}"
    return "{" + ",".join(map(_write_run, _cut_runs(numbers))) + "}"


def _write_run(run: range) -> str:
    if len(run) == 1:
        return str(run[0])
    return f"{run[0]}..{run[-1]}" + (f"..{run.step}" if run.step > 1 else "")


def _cut_runs(numbers: Sequence[int]) -> Iterator[range]:
    """Cut sorted numbers into runs of consecutive ones."""
    first = last = numbers[0]
    for number in (*numbers[1:], MAX_NUMBER + 2):
        if number != last + 1:
            yield range(first, last + 1)
            first = number
        last = number
