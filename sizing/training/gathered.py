"""Layers that FSDP has whole for a moment, beside what a GPU keeps of them."""

from __future__ import annotations

from sizing.model.inventory import Inventory

NUM_GATHERED = 3
"""Weights of a layer, weights of the next one, which is fetched meanwhile, and gradients of one.

Source: Zhao et al. 2023, arXiv 2304.11277, sections 3.3 and 3.4: at most two AllGathers are in flight.
"""

GATHERED_TEXT = "FSDP gathers two layers at a time, and has the gradients of one whole"


def gathered_bytes(inventory: Inventory, *, value_bytes: int) -> int:
    """Bytes that FSDP gathers at a time: 3 w P, with P the parameters of the largest layer and w bytes a value.

    Every layer is taken to be a unit of FSDP. Source: NUM_GATHERED.

    >>> from sizing.model.inventory import TensorGroup
    >>> gathered_bytes((TensorGroup("w", (4, 3), 4, layers=range(2)),), value_bytes=2)
    72
    """
    in_layers = [group for group in inventory if group.placement == "layers"]
    layers = [
        sum(group.num_parameters // len(group.layers) for group in in_layers if first in group.layers)
        for first in {group.layers.start for group in in_layers}
    ]
    return NUM_GATHERED * value_bytes * max(layers, default=0)
