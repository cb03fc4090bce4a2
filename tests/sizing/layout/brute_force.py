"""The slow and plain way: every rank of a small world, one by one, layer by layer."""

import itertools

from sizing.layout import Parallelism
from sizing.model.inventory import Inventory, TensorGroup


def parameters_by_rank(inventory: Inventory, parallelism: Parallelism, num_layers: int) -> dict[tuple[int, int], int]:
    """Parameters that each (stage, tensor rank) of one replica holds."""
    stage_of_layer = _stages_of_layers(parallelism, num_layers)
    world = [(s, t) for s in range(parallelism.pipeline) for t in range(parallelism.tensor)]
    held = dict.fromkeys(world, 0)
    for group in inventory:
        for stage in range(parallelism.pipeline):
            for _ in range(_num_tensors(group, stage, parallelism.pipeline, stage_of_layer)):
                for tensor_rank in range(parallelism.tensor):
                    held[stage, tensor_rank] += _piece(group, tensor_rank, parallelism.tensor)
    return held


def writing_nodes(parallelism: Parallelism, gpus_per_node: int) -> dict[int, int]:
    """Writers on each node, by walking over every rank of the world in its order."""
    axes = [axis for axis in parallelism.rank_order if axis != "expert"]
    sizes = [getattr(parallelism, axis) for axis in reversed(axes)]
    nodes: dict[int, int] = {}
    for rank, numbers in enumerate(itertools.product(*map(range, sizes))):
        at = dict(zip(reversed(axes), numbers, strict=True))
        if at["data"] == at["context"] == 0:
            nodes[rank // gpus_per_node] = nodes.get(rank // gpus_per_node, 0) + 1
    return nodes


def _stages_of_layers(parallelism: Parallelism, num_layers: int) -> list[int]:
    if parallelism.virtual_pipeline > 1:
        return _stages_of_chunks(parallelism, num_layers)
    if parallelism.layers_per_stage is not None:
        return [s for s, count in enumerate(parallelism.layers_per_stage) for _ in range(count)]
    stages: list[int] = []
    left = num_layers
    for stage in range(parallelism.pipeline):
        count = -(-left // (parallelism.pipeline - stage))
        stages += [stage] * count
        left -= count
    return stages


def _stages_of_chunks(parallelism: Parallelism, num_layers: int) -> list[int]:
    """Embedding, layers and head in a row, cut into equal chunks, which go round the stages."""
    row = [*range(num_layers)]
    if parallelism.embedding_counts_as_layer:
        row = [-1, *row]
    if parallelism.loss_counts_as_layer:
        row = [*row, -1]
    size = len(row) // (parallelism.pipeline * parallelism.virtual_pipeline)
    return [place // size % parallelism.pipeline for place, layer in enumerate(row) if layer >= 0]


def _num_tensors(group: TensorGroup, stage: int, num_stages: int, stage_of_layer: list[int]) -> int:
    if group.placement == "layers":
        return group.count * sum(stage_of_layer[layer] == stage for layer in group.layers)
    first, last = stage == 0, stage == num_stages - 1
    here = {"first-stage": first, "last-stage": last, "first-and-last-stage": first or last}
    return group.count * here[group.placement]


def _piece(group: TensorGroup, tensor_rank: int, num_ranks: int) -> int:
    """Dealt out like cards; with fewer pieces than ranks, neighbours share a piece."""
    piece = group.tensor_parameters // group.pieces
    if group.pieces < num_ranks:
        return piece
    return piece * sum(card % num_ranks == tensor_rank for card in range(group.pieces))
