"""Which tensors are trained: all, all but some, or only adapters."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from sizing.errors import InvalidInput
from sizing.model.inventory import Inventory, TensorGroup


def with_frozen(inventory: Inventory, names: Collection[str], *, field: str) -> Inventory:
    """The inventory in which the named tensors, or those that begin with a name, are not trained.

    Raises InvalidInput for a name that no tensor has.
    """
    _check_names(inventory, names, field=field)
    return tuple(replace(group, is_trained=False) if _is_named(group, names) else group for group in inventory)


def with_adapters(inventory: Inventory, *, rank: int, names: Collection[str], field: str) -> Inventory:
    """The inventory with everything frozen and low-rank adapters beside the named matrices.

    A matrix of out x in gets rank x in and out x rank. Where the ranks cut the matrix by its outputs they cut
    the second adapter, where by its inputs the first, along the same dimension; the other is whole on every rank.
    Source: Hu et al. 2021, arXiv 2106.09685, section 4.1.
    Raises InvalidInput for a name that no matrix of the layers has.

    >>> matrix = TensorGroup("ffn.up", (8, 4), 8, layers=range(3))
    >>> [g.shape for g in with_adapters((matrix,), rank=2, names=["ffn"], field="f")]
    [(8, 4), (2, 4), (8, 2)]
    """
    matrices = tuple(group for group in inventory if group.is_hidden_matrix)
    _check_names(matrices, names, field=field)
    frozen = tuple(replace(group, is_trained=False) for group in inventory)
    targets = (group for group in matrices if _is_named(group, names))
    return (*frozen, *(adapter for group in targets for adapter in _adapters_of(group, rank)))


def _adapters_of(group: TensorGroup, rank: int) -> Iterator[TensorGroup]:
    outputs, inputs = group.shape
    first = replace(group, name=f"{group.name}.adapter_in", shape=(rank, inputs))
    second = replace(group, name=f"{group.name}.adapter_out", shape=(outputs, rank))
    by_outputs = group.cut == 0
    yield replace(first, pieces=1) if by_outputs else first
    yield second if by_outputs else replace(second, pieces=1)


def _is_named(group: TensorGroup, names: Collection[str]) -> bool:
    return any(group.name == name or group.name.startswith(f"{name}.") for name in names)


def _check_names(inventory: Inventory, names: Collection[str], *, field: str) -> None:
    for name in names:
        if not any(_is_named(group, [name]) for group in inventory):
            known = ", ".join(group.name for group in inventory)
            raise InvalidInput.of(field, "must name tensors of the model", value=name, remedy=f"this model has {known}")
