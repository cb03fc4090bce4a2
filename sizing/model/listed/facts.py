"""Facts about a whole list: its layers, experts and widths, and the orientation of its matrices."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sizing.model.listed.name_patterns import NamePattern
from sizing.model.listed.name_rules import NameRule, name_rule, path_of
from sizing.model.listed.roles import Role
from sizing.model.listed.stacks import Stack, expert_place, main_stack
from sizing.model.listed.tensor_entry import TensorEntry

_UNDER_EXPERTS = re.compile(r"(?:^|\.)(?:local_)?experts(?:\.|$)|(?:moe|mlp)\.(?:input|output)_linear")
_VOCABULARY = re.compile(
    r"(?:.*\.)?(?:embed_tokens(?:_per_layer)?|wte|word_embeddings?|tok_embeddings|token_embedder|embed_in|input_embedding|"
    r"tokens_embed|embeddings?|transformer\.w|shared)\.(?:weight|embedding)"
)
_HEAD = re.compile(r"(?:.*\.)?(?:lm_head|embed_out|output_layer|head|output)\.weight")
_EXPANDS, _CONTRACTS = NameRule(role="column", names=()), NameRule(role="row", names=())
_CONVOLUTION = re.compile(r"conv")


@dataclass(frozen=True, slots=True)
class Named:
    """An entry with what its name tells: its numbers, the rule that matches, and which number counts experts."""

    entry: TensorEntry
    pattern: NamePattern
    path: str
    rule: NameRule | None
    expert_place: int | None

    @property
    def roles(self) -> Sequence[Role]:
        """Roles that the entry gives itself."""
        return self.entry.roles or ()

    @property
    def parent(self) -> str:
        """Path of the module that contains the tensor's own module."""
        return self.path.removesuffix(".weight").removesuffix(".bias").rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about all entries of a list together.

    `expert_counts`: first dimensions of tensors that hold all experts. `vocabulary`: rows of the embedding, 0 if there
    is none. `hidden`: width of the hidden state. `transposed`: the kinds of matrices whose inputs come first, True for
    those of experts.
    """

    stack: Stack
    expert_counts: frozenset[int]
    vocabulary: int
    hidden: int
    transposed: frozenset[bool]

    @classmethod
    def of(cls, entries: Sequence[Named]) -> Facts:
        """Read the facts off the entries of a list."""
        stack = main_stack((named.pattern, named.path, named.entry.num_parameters) for named in entries)
        counts = frozenset(
            named.entry.shape[0]
            for named in entries
            if named.expert_place is None and len(named.entry.shape) == 3 and _UNDER_EXPERTS.search(named.path)
        )
        vocabulary, width = _find_vocabulary(entries, stack)
        facts = cls(stack, counts, vocabulary, _find_hidden(entries, stack) or width, frozenset())
        return replace(facts, transposed=frozenset(_find_transposed(entries, facts)))

    def num_experts(self, named: Named) -> int:
        """Count the experts of an entry's tensors; 0 if they do not belong to experts."""
        if named.expert_place is not None:
            return len(named.pattern.numbers[named.expert_place])
        return named.entry.shape[0] if self.holds_all_experts(named) else 0

    def holds_all_experts(self, named: Named) -> bool:
        """Return whether one tensor holds all experts along its first dimension."""
        shape = named.entry.shape
        if named.expert_place is not None or len(shape) < 2:
            return False
        if "expert" in named.roles:
            return True
        return _UNDER_EXPERTS.search(named.path) is not None and shape[0] in self.expert_counts

    def shape(self, named: Named) -> tuple[int, ...]:
        """Return the shape of one tensor, that of one expert if the tensor holds all."""
        shape = named.entry.shape[1:] if self.holds_all_experts(named) else named.entry.shape
        return shape or (1,)

    def cut_dimension(self, named: Named, cut: Literal["column", "row"]) -> int:
        """Return the dimension of a tensor's outputs (`column`) or inputs (`row`)."""
        shape = self.shape(named)
        if len(shape) == 1 or _CONVOLUTION.search(named.path):
            return 0
        is_transposed = bool(self.num_experts(named)) in self.transposed
        return len(shape) - 1 - ((cut == "column") != is_transposed)


def read_name(entry: TensorEntry) -> Named:
    """Read what the name of an entry says."""
    pattern = entry.pattern
    path = path_of(pattern)
    return Named(entry, pattern, path, name_rule(_within_layer(pattern) or path), expert_place(pattern))


def with_pairs(entries: Sequence[Named], facts: Facts) -> list[Named]:
    """Pair matrices that no rule knows, where one widens the hidden state and the other narrows it again.

    Both stand in one module of a layer, as n x h and h x n with n > h: outputs of the first are inputs of the second.
    """
    unknown = [n for n in entries if n.rule is None and facts.stack.holds(n.pattern)]
    widths = {(n.parent, *n.entry.shape) for n in unknown if len(n.entry.shape) == 2}
    pairs = {
        (parent, outputs)
        for parent, outputs, inputs in widths
        if inputs == facts.hidden < outputs and (parent, inputs, outputs) in widths
    }
    parents = {parent for parent, _ in pairs}
    return [
        replace(n, rule=_find_pair_rule(n, facts, pairs)) if n.parent in parents and not n.rule else n for n in entries
    ]


def _find_pair_rule(n: Named, facts: Facts, pairs: set[tuple[str, int]]) -> NameRule | None:
    shape = n.entry.shape
    if (n.parent, shape[0]) in pairs and shape[1:] in ((), (facts.hidden,)):
        return _EXPANDS
    if shape[0] == facts.hidden and (len(shape) == 1 or (n.parent, shape[1]) in pairs):
        return _CONTRACTS
    return None


def is_vocabulary(path: str) -> bool:
    """Return whether a path is that of a table with a row for each token."""
    return _VOCABULARY.fullmatch(path) is not None


def _within_layer(pattern: NamePattern) -> str:
    """Return the path of a tensor in a layer, from the word before the layer's number on."""
    if not pattern.numbers:
        return ""
    before = pattern.texts[0].rstrip("./").rpartition(".")[2]
    return path_of(NamePattern((before + ".", *pattern.texts[1:]), pattern.numbers))


def _find_vocabulary(entries: Iterable[Named], stack: Stack) -> tuple[int, int]:
    """Find rows and columns of the largest token embedding, else of the head; zeros if there is neither."""
    tables = [n for n in entries if len(n.entry.shape) == 2 and not stack.holds(n.pattern)]
    for pattern in (_VOCABULARY, _HEAD):
        shapes = [n.entry.shape for n in tables if pattern.fullmatch(n.path)]
        if shapes:
            rows, columns = max(shapes, key=lambda shape: shape[0] * shape[1])
            return rows, columns
    return 0, 0


def _find_hidden(entries: Iterable[Named], stack: Stack) -> int:
    """Find the most common length of uncut vectors in the layers, which is that of norms."""
    lengths: Counter[int] = Counter()
    for n in entries:
        if stack.holds(n.pattern) and n.rule and n.rule.role == "replicated" and len(n.entry.shape) == 1:
            lengths[n.entry.shape[0]] += n.entry.num_tensors
    return max(lengths, key=lambda length: (lengths[length], length)) if lengths else 0


def _find_transposed(entries: Iterable[Named], facts: Facts) -> Iterable[bool]:
    """Find the kinds of matrices, dense (False) or of experts (True), most of which have their inputs first."""
    votes: Counter[bool] = Counter()
    for n in entries:
        shape = facts.shape(n)
        if n.rule is None or n.rule.role not in ("column", "row") or len(shape) != 2 or len(set(shape)) == 1:
            continue
        inputs = (facts.hidden == shape[1]) - (facts.hidden == shape[0])
        votes[bool(facts.num_experts(n))] += inputs if n.rule.role == "column" else -inputs
    return (kind for kind, vote in votes.items() if vote < 0)
