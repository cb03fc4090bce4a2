"""Turn a list of tensors into a model: its inventory, and the assumptions that were made."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from sizing.errors import InvalidInput
from sizing.model.inventory import Inventory, Placement, TensorGroup, num_parameters, progression
from sizing.model.listed.facts import Facts
from sizing.model.listed.name_patterns import NamePattern
from sizing.model.listed.name_rules import path_of
from sizing.model.listed.roled import FIELD, Heads, Roled, assign_roles
from sizing.model.listed.tensor_entry import TensorEntry
from sizing.provenance import Assumption
from sizing.units import counted_text, percent_text

_PLACEMENTS: dict[str, Placement] = {"layer": "layers", "embedding": "first-stage", "head": "last-stage"}
_NAMES_SHOWN = 3
"""Max names in a sentence that can still be read."""


@dataclass(frozen=True)
class ListedModel:
    """The model that a list of tensors describes. `vocab_size` is 0 if no embedding is known."""

    rows: tuple[Roled, ...]
    inventory: Inventory
    num_layers: int
    vocab_size: int
    num_experts: int | None
    notes: tuple[Assumption, ...]

    @property
    def num_tensors(self) -> int:
        """Number of tensors of the list that hold parameters."""
        return sum(row.named.entry.num_tensors for row in self.rows if not row.uncounted)


@functools.lru_cache(maxsize=64)
def listed_model(entries: tuple[TensorEntry, ...], heads: Heads) -> ListedModel:
    """Make a model of a list of tensors.

    Raises InvalidInput, naming the tensor, where roles contradict a name or shape, or no parameter is left.
    """
    facts, rows = assign_roles(entries, heads)
    rows = tuple(_mark_shared_by_modules(row, facts) for row in rows)
    ties = _ties_embeddings(rows, facts)
    inventory = tuple(group for row in rows for group in _list_groups(row, facts, ties=ties))
    if not num_parameters(inventory):
        raise InvalidInput.of(FIELD, "must have a parameter", value=None, remedy="add the model's tensors")
    return ListedModel(
        rows=rows,
        inventory=inventory,
        num_layers=facts.stack.num_layers,
        vocab_size=facts.vocabulary,
        num_experts=max((row.num_experts for row in rows if not row.uncounted), default=0) or None,
        notes=tuple(_list_notes(rows, inventory, heads, ties=ties)),
    )


def _mark_shared_by_modules(row: Roled, facts: Facts) -> Roled:
    """Mark as tied the embedding and head that files repeat in a module for multi-token prediction."""
    numbers = row.named.pattern.numbers
    is_table = facts.vocabulary > 0 and row.shape == (facts.vocabulary, facts.hidden)
    in_modules = row.predicts_further or (row.place == "layer" and set(numbers[0]) <= facts.stack.of_modules)
    return replace(row, uncounted="tied") if is_table and in_modules and not row.uncounted else row


def _ties_embeddings(rows: Iterable[Roled], facts: Facts) -> bool:
    """Return whether the only table of the vocabulary is both embedding and head."""
    tables = [row for row in rows if _is_table(row, facts) and row.uncounted != "buffer"]
    tied = any(row.uncounted == "tied" and row.place == "head" for row in tables)
    return tied or len({row.place for row in tables if not row.uncounted}) == 1


def _is_table(row: Roled, facts: Facts) -> bool:
    """Return whether a tensor has a row for each token of the model's vocabulary."""
    is_outside = row.place != "layer" and not row.predicts_further
    return is_outside and len(row.shape) == 2 and row.shape[0] == facts.vocabulary and row.cut == "column"


def _list_groups(row: Roled, facts: Facts, *, ties: bool) -> Iterator[TensorGroup]:
    if row.uncounted:
        return
    whole = _place(row, facts)
    if ties and _is_table(row, facts):
        whole = [replace(group, placement="first-and-last-stage") for group in whole]
    for group in whole:
        if not row.sections:
            yield group
        for section in row.sections:
            shape = (*row.shape[: row.cut_dimension], section.length, *row.shape[row.cut_dimension + 1 :])
            name = f"{group.name}{section.name}"
            yield replace(group, name=name, shape=shape, pieces=section.parts, cut=row.cut_dimension)


def _place(row: Roled, facts: Facts) -> list[TensorGroup]:
    """List the groups of an entry: in its layers, and on the last stage those of modules for multi-token prediction."""
    n = row.named
    others = [len(some) for place, some in enumerate(n.pattern.numbers) if place != n.expert_place]
    group = TensorGroup(_name_tensor(n.pattern, facts), row.shape, 1, _PLACEMENTS[row.place], experts=row.num_experts)
    if row.place != "layer":
        return [replace(group, count=math.prod(others))]
    stack = facts.stack
    layers = [layer - stack.first for layer in n.pattern.numbers[0] if layer not in stack.of_modules]
    num_modules = len(n.pattern.numbers[0]) - len(layers)
    count = math.prod(others[1:])
    after = replace(group, name=f"mtp.{group.name}", placement="last-stage", count=count * num_modules)
    within = replace(group, layers=progression(layers), count=count)
    return [*([within] if layers else []), *([after] if num_modules else [])]


def _name_tensor(pattern: NamePattern, facts: Facts) -> str:
    """Name a tensor of the layers by the part after the layer's number, any other by its path without numbers."""
    if not facts.stack.holds(pattern):
        return path_of(pattern)
    kind = pattern.texts[0].rstrip("._/").rpartition(".")[2] if len(facts.stack.prefixes) > 1 else ""
    within = path_of(NamePattern(pattern.texts[1:], pattern.numbers[1:]))
    return f"{kind}.{within}" if kind else within


def _list_notes(rows: Sequence[Roled], inventory: Inventory, heads: Heads, *, ties: bool) -> Iterator[Assumption]:
    yield from _note_unknown(rows, num_parameters(inventory))
    if ties and not any(row.uncounted == "tied" and row.place == "head" for row in rows):
        yield _note("tied embeddings", "the list has one table of the vocabulary: it is taken as embedding and head")
    yield from _note_further(rows, inventory)
    yield from _note_other_layers(rows)
    if heads.num_attention is None and any(row.named.rule and row.named.rule.heads for row in rows):
        reason = "model.num_attention_heads is not given: tensor ranks are taken to cut attention by rows"
        yield _note("rows of attention", reason)


def _note_unknown(rows: Iterable[Roled], whole: int) -> Iterator[Assumption]:
    unknown = [row for row in rows if not row.is_known and not row.uncounted]
    if unknown:
        names = [row.named.entry.name[:80] for row in unknown]
        more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        share = percent_text(sum(row.num_parameters for row in unknown) / whole)
        reason = f"no rule knows how they are cut: whole on every tensor rank, {share} of the parameters"
        yield _note(", ".join(names[:_NAMES_SHOWN]) + more, reason)


def _note_further(rows: Iterable[Roled], inventory: Inventory) -> Iterator[Assumption]:
    """List notes on multi-token prediction, buffers, and tensors that share the data of others."""
    of_modules = sum(group.num_parameters for group in inventory if group.name.startswith("mtp."))
    of_modules += sum(row.num_parameters for row in rows if row.predicts_further)
    if of_modules:
        reason = "multi-token-prediction weights, in the count, on the last stage; what they share counts once"
        yield _note(f"{of_modules:,} parameters", reason)
    buffers = [row for row in rows if row.uncounted == "buffer"]
    if buffers:
        reason = "buffers are no parameters: not in the checkpoint's size"
        yield _note(counted_text(sum(row.named.entry.num_tensors for row in buffers), "buffer"), reason)
    shared = [row for row in rows if row.uncounted == "tied" and row.place == "layer"]
    if shared:
        names = counted_text(sum(row.named.entry.num_tensors for row in shared), "tensor")
        yield _note(names, "share the data of others: counted once, on the stage of the first")


def _note_other_layers(rows: Iterable[Roled]) -> Iterator[Assumption]:
    """List notes on layers that are not the model's own, such as those of an image encoder."""
    others = [
        row
        for row in rows
        if row.place != "layer" and row.named.pattern.numbers and not (row.uncounted or row.predicts_further)
    ]
    for place, stage in (("embedding", "first"), ("head", "last")):
        there = [row for row in others if row.place == place and not row.num_experts]
        if there:
            prefixes = dict.fromkeys(row.named.pattern.texts[0].rstrip("._/") for row in there)
            number = (
                f"{sum(row.num_parameters for row in there):,} parameters of {', '.join(list(prefixes)[:_NAMES_SHOWN])}"
            )
            yield _note(number, f"layers of another part: all on the {stage} stage of a pipeline")


def _note(value: str, reason: str) -> Assumption:
    return Assumption(field=FIELD, value=value, reason=reason)
