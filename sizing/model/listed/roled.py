"""The roles of every entry of a list: those that the entry states, otherwise those of rules over names and shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sizing.checkpoint_files.dtypes import BUFFERS, FLOATING, NOT_STATED, QUANTISED
from sizing.errors import InvalidInput
from sizing.model.listed.facts import Facts, Named, is_vocabulary, read_name, with_pairs
from sizing.model.listed.name_patterns import name_in_two
from sizing.model.listed.roles import CUTS, PLACES, UNCOUNTED, Cut, Place, Role
from sizing.model.listed.stacks import place_outside, predicts_further
from sizing.model.listed.tensor_entry import TensorEntry

FIELD = "model.tensors"


class Heads(NamedTuple):
    """Number of attention heads, where known: of queries, and of keys and values."""

    num_attention: int | None = None
    num_key_value: int | None = None


class CutSection(NamedTuple):
    """A run of the dimension that is cut: its length, and the equal parts that ranks may hold."""

    name: str
    length: int
    parts: int


@dataclass(frozen=True, slots=True)
class Roled:
    """An entry with its roles.

    `sections` together make up the dimension `cut_dimension` of `shape`; if there are `num_experts`, the shape is that
    of one expert. `is_known`: a rule, or the entry itself, says how it is cut.
    """

    named: Named
    shape: tuple[int, ...]
    num_experts: int
    place: Place
    cut: Cut
    cut_dimension: int
    sections: tuple[CutSection, ...]
    is_router: bool
    uncounted: Role | None
    is_known: bool
    predicts_further: bool

    @property
    def roles(self) -> tuple[Role, ...]:
        """Names of the roles, as `model.tensors` takes them."""
        if self.uncounted == "buffer":
            return ("buffer",)
        words: list[Role] = [self.place]
        words += ["expert"] if self.num_experts else []
        words += ["router"] if self.is_router else []
        words += ["tied"] if self.uncounted == "tied" else []
        return (*words, self.cut)

    @property
    def num_parameters(self) -> int:
        """Number of parameters of the entry's tensors, 0 if they are not counted."""
        return 0 if self.uncounted else self.named.entry.num_parameters


def assign_roles(entries: Sequence[TensorEntry], heads: Heads) -> tuple[Facts, tuple[Roled, ...]]:
    """Read the facts about a whole list, and find the roles of every entry.

    Raises InvalidInput, naming the tensor, where two entries have it, or its roles contradict its name or shape.
    """
    with_names = [read_name(entry) for entry in entries]
    if (name := name_in_two(each.pattern for each in with_names)) is not None:
        rule = f"must have one entry for each name, and two are for {name[:120]!r}"
        raise InvalidInput.of(FIELD, rule, value=None, remedy="keep one of them")
    facts = Facts.of(with_names)
    known = with_pairs(with_names, facts)
    rules = _Rules(facts, heads, known)
    return facts, tuple(rules.role_entry(each) for each in known)


class _Rules:
    def __init__(self, facts: Facts, heads: Heads, entries: Sequence[Named]) -> None:
        self._facts = facts
        self._heads = heads
        self._inner = {
            n.parent: facts.shape(n)[facts.cut_dimension(n, "row")] for n in entries if _has(n, "row", heads="query")
        }
        self._lengths = {
            (n.parent, section.length): section
            for n in entries
            if n.rule is not None and n.rule.role in ("column", "row")
            for section in self._list_sections_by_rule(n, n.rule.role)
        }

    def role_entry(self, n: Named) -> Roled:
        """Find the roles of one entry."""
        uncounted = self._why_not_counted(n)
        cut, dimension, sections = self._find_cut(n)
        roled = Roled(
            named=n,
            shape=self._facts.shape(n),
            num_experts=self._facts.num_experts(n),
            place=self._find_place(n),
            cut=cut,
            cut_dimension=dimension,
            sections=sections,
            is_router="router" in n.roles or _has(n, "router"),
            uncounted=uncounted,
            is_known=self._is_known(n),
            predicts_further=predicts_further(n.path),
        )
        if uncounted is None:
            _check(roled)
        return roled

    def _why_not_counted(self, n: Named) -> Role | None:
        given = next((word for word in UNCOUNTED if word in n.roles), None)
        if given or n.path.rpartition(".")[2] in BUFFERS:
            return given or "buffer"
        if n.entry.dtype in FLOATING | {NOT_STATED}:
            return None
        if n.entry.dtype in QUANTISED and len(n.entry.shape) > 1:
            rule = f"{n.entry.name[:120]!r} must not hold packed weights"
            remedy = "they do not say how many parameters they are: give the list of the model before it was quantised"
            raise InvalidInput.of(FIELD, rule, value=n.entry.dtype, remedy=remedy)
        return "buffer"

    def _find_place(self, n: Named) -> Place:
        given = next((word for word in PLACES if word in n.roles), None)
        in_layers = self._facts.stack.holds(n.pattern)
        if given == "layer" and not in_layers:
            raise _refuse(n, "must not be a layer's", "its name counts none of the model's layers")
        if given is not None:
            return given
        if in_layers:
            return "layer"
        if self._is_head(n) or predicts_further(n.path):
            return "head"
        return "embedding" if is_vocabulary(n.path) else place_outside(n.path, is_layer=bool(n.pattern.numbers))

    def _is_head(self, n: Named) -> bool:
        """Return whether a tensor outside the layers has an output for each token."""
        rows = n.entry.shape[:1] == (self._facts.vocabulary,)
        return rows and len(n.entry.shape) <= 2 and not is_vocabulary(n.path) and self._facts.vocabulary > 0

    def _find_cut(self, n: Named) -> tuple[Cut, int, tuple[CutSection, ...]]:
        cut = next((word for word in CUTS if word in n.roles), None) or self._find_cut_by_rule(n)
        if cut == "replicated":
            return cut, 0, ()
        dimension = 0 if cut == "column" and self._is_of_vocabulary(n) else self._facts.cut_dimension(n, cut)
        return cut, dimension, self._list_sections(n, cut, self._facts.shape(n)[dimension])

    def _find_cut_by_rule(self, n: Named) -> Cut:
        if self._is_of_vocabulary(n):
            return "column"
        is_in_layers = bool(n.pattern.numbers) or predicts_further(n.path)
        if n.rule is None or not is_in_layers or "router" in n.roles or n.rule.role == "router":
            return "replicated"
        if n.rule.role == "like":
            return "column" if self._find_like(n) else "replicated"
        if n.rule.role == "row" and len(self._facts.shape(n)) == 1:
            return "replicated"
        return n.rule.role

    def _is_of_vocabulary(self, n: Named) -> bool:
        if self._facts.stack.holds(n.pattern):
            return False
        return self._is_head(n) or (len(n.entry.shape) == 2 and is_vocabulary(n.path))

    def _is_known(self, n: Named) -> bool:
        says_itself = bool({*CUTS, "router"} & {*n.roles})
        is_outside = not self._facts.stack.holds(n.pattern)
        return says_itself or is_outside or n.rule is not None or math.prod(self._facts.shape(n)) == 1

    def _find_like(self, n: Named) -> CutSection | None:
        """Return the section of a tensor in the same module that has the same length."""
        return self._lengths.get((n.parent, math.prod(self._facts.shape(n))))

    def _list_sections(self, n: Named, cut: Cut, length: int) -> tuple[CutSection, ...]:
        if n.entry.parts is not None:
            return (CutSection("", length, n.entry.parts),)
        if n.rule is not None and n.rule.role == "like" and (like := self._find_like(n)):
            return (CutSection("", length, _fit_parts(like.parts, length)),)
        if n.rule is None or self._is_of_vocabulary(n):
            return (CutSection("", length, length),)
        return self._list_sections_by_rule(n, cut)

    def _list_sections_by_rule(self, n: Named, cut: Cut) -> tuple[CutSection, ...]:
        """Divide the cut dimension into heads if it has them, otherwise into rows or columns."""
        shape = self._facts.shape(n)
        length = shape[self._facts.cut_dimension(n, "row" if cut == "row" else "column")]
        heads = self._heads.num_attention
        is_of_attention = n.rule is not None and n.rule.heads and "linear_attn" not in n.path
        if n.rule is not None and n.rule.halves and length % 2 == 0:
            return (CutSection("", length, length // 2),)
        if not heads or not is_of_attention or n.rule is None or not self._facts.stack.holds(n.pattern):
            return (CutSection("", length, length),)
        if n.rule.heads == "query":
            return (CutSection("", length, _fit_parts(heads, length)),)
        head_dim = self._inner.get(n.parent, 0) // heads
        if n.rule.heads == "key-value":
            known = self._heads.num_key_value or (length // head_dim if head_dim else heads)
            return (CutSection("", length, _fit_parts(known, length)),)
        return _cut_fused(length, heads, head_dim)


def _has(n: Named, role: str, *, heads: str | None = None) -> bool:
    """Return whether the rule of an entry has this role, and these heads if given."""
    if n.rule is None or n.rule.role != role:
        return False
    return heads is None or (n.rule.heads == heads and len(n.entry.shape) > 1)


def _cut_fused(length: int, heads: int, head_dim: int) -> tuple[CutSection, ...]:
    """Cut queries, keys and values in one dimension: (heads + 2 key-value heads) x head_dim."""
    key_value, rest = divmod(length - heads * head_dim, 2 * head_dim) if head_dim else (0, 1)
    if rest or not 0 < key_value <= heads:
        return (CutSection("", length, length),)
    if key_value == heads:
        return (CutSection("", length, heads),)
    queries = heads * head_dim
    return CutSection(".query", queries, heads), CutSection(".key_value", length - queries, key_value)


def _fit_parts(parts: int, length: int) -> int:
    """Return the number of parts if it divides a length; otherwise each row is a part."""
    return parts if parts and length % parts == 0 else length


def _check(roled: Roled) -> None:
    """Refuse an entry whose roles contradict its name or shape."""
    n, entry = roled.named, roled.named.entry
    if 0 in entry.shape:
        remedy = f"correct its shape, {list(entry.shape)}, or leave it out"
        raise _refuse(n, "must not have a dimension of 0", remedy)
    if "expert" in n.roles and not roled.num_experts:
        raise _refuse(n, "must not be an expert's", "neither its name counts experts nor does its first dimension")
    if roled.cut == "row" and len(roled.shape) == 1:
        raise _refuse(n, "must not be cut by rows", f"it has one dimension, {roled.shape[0]}")
    for section in roled.sections:
        if not section.parts or section.length % section.parts:
            raise _refuse(n, f"must have parts that divide {section.length}", f"correct its parts, {entry.parts}")


def _refuse(n: Named, rule: str, remedy: str) -> InvalidInput:
    return InvalidInput.of(FIELD, f"{n.entry.name[:120]!r} {rule}", value=None, remedy=remedy)
