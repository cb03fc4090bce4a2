"""FSDP2 over tensor, pipeline, context and expert ranks: what each rank writes is what PyTorch's own planner gives it."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch.distributed.checkpoint._dedup_save_plans import dedup_save_plans
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import SavePlan, TensorWriteData, WriteItem, WriteItemType
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor._utils import _compute_local_shape_and_global_offset
from torch.distributed.tensor.placement_types import Placement, _StridedShard

from sizing.errors import InvalidInput
from sizing.layout.chunks import LayerSplit
from sizing.layout.parallelism import Parallelism
from sizing.model import TensorGroup
from sizing.report import answer
from sizing.scenario import scenario_from
from sizing.sized_layout import saved_by_rank_of, size_layout
from tests.examples import spread
from tests.sizing.layout.resharding_rank import ARCHITECTURE
from tests.sizing.layout.worlds import HYBRID, MIXTURE, TIED

DENSE: dict[str, Any] = TIED | {"num_kv_heads": 4, "ffn_hidden_size": 48, "vocab_size": 96, "tied_embeddings": False}
EXPERTS: dict[str, Any] = MIXTURE | {"vocab_size": 192, "num_mtp_layers": 0}
PARTS = ("weights", "moment.0", "moment.1")

WORLDS = [
    ({"architecture": DENSE}, {"data": 4, "tensor": 2}),
    ({"architecture": DENSE}, {"data": 5, "tensor": 4}),
    ({"architecture": DENSE}, {"data": 2, "context": 3, "tensor": 2}),
    ({"architecture": DENSE}, {"data": 2, "pipeline": 3}),
    (
        {"architecture": DENSE},
        {"data": 2, "tensor": 4, "pipeline": 2, "virtual_pipeline": 2, "layers_per_stage": [2, 2, 2, 1]},
    ),
    (
        {"architecture": DENSE},
        {"data": 2, "tensor": 2, "pipeline": 3, "embedding_counts_as_layer": True, "loss_counts_as_layer": True},
    ),
    ({"architecture": EXPERTS}, {"data": 4, "tensor": 4}),
    ({"architecture": EXPERTS}, {"data": 8, "expert": 4}),
    ({"architecture": EXPERTS}, {"data": 8, "tensor": 2, "expert": 8, "expert_tensor": 1}),
    ({"architecture": EXPERTS}, {"data": 8, "tensor": 2, "expert": 2, "expert_tensor": 2}),
    ({"architecture": EXPERTS}, {"data": 4, "tensor": 4, "expert": 2, "expert_tensor": 1, "pipeline": 2}),
    ({"architecture": EXPERTS}, {"data": 8, "context": 2, "expert": 4}),
    ({"huggingface_config": HYBRID}, {"data": 4, "tensor": 2, "expert": 4, "expert_tensor": 1}),
]
COPIES = [
    ({"architecture": DENSE}, {"data": 4, "shard_group": 2, "tensor": 4}),
    ({"architecture": DENSE}, {"data": 6, "shard_group": 2, "tensor": 2, "pipeline": 2}),
    ({"architecture": EXPERTS}, {"data": 8, "shard_group": 4, "tensor": 2, "expert": 4, "expert_tensor": 1}),
]


def question(model: dict[str, Any], degrees: dict[str, Any]) -> dict[str, Any]:
    return {"model": model, "training": {"framework": "fsdp2"}, "parallelism": degrees}


@pytest.mark.parametrize("world", spread(WORLDS, by_default=[WORLDS[1], WORLDS[4], WORLDS[10], WORLDS[12]]))
def test_each_rank_writes_what_the_planner_of_pytorch_gives_it(world: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """To the byte, but for tensors that tensor ranks repeat: these are dealt whole, which weighs in models so small."""
    predicted, planned = written(question(*world))
    assert sum(predicted.values()) == sum(planned.rank_bytes.values())
    assert predicted.keys() == planned.rank_bytes.keys()
    for rank, num_bytes in planned.rank_bytes.items():
        assert predicted[rank] == pytest.approx(num_bytes, rel=0.03 if planned.has_repeated else 0), rank


@pytest.mark.parametrize("world", spread(COPIES, by_default=COPIES[2:]))
def test_the_copies_of_a_shard_divide_the_writing_about_evenly(world: tuple[dict[str, Any], dict[str, Any]]) -> None:
    predicted, planned = written(question(*world))
    assert sum(predicted.values()) == sum(planned.rank_bytes.values())
    for rank, num_bytes in planned.rank_bytes.items():
        assert predicted[rank] == pytest.approx(num_bytes, rel=0.1), rank


def test_the_first_tensor_rank_writes_nothing_that_the_others_repeat() -> None:
    """PyTorch gives a tensor that several ranks have to the one with the least in its plan so far."""
    report = answer(scenario_from(question({"architecture": DENSE}, {"data": 2, "tensor": 4})))
    first, *others = sorted(report.layout.rank_classes, key=lambda each: each.ranks)
    assert first.ranks == "0-1 x 0"
    assert all(each.bytes_per_rank > first.bytes_per_rank for each in others)
    norms = 15 * 48 * 12 // 2
    assert sum(each.num_ranks * (each.bytes_per_rank - first.bytes_per_rank) for each in others) == 2 * norms


LAYER_OF_405B = 16_384 * (2 * 16_384 + 2 * 1_024 + 3 * 53_248 + 2)
LAYER_OF_70B = 8_192 * (2 * 8_192 + 2 * 1_024 + 3 * 28_672 + 2)


def test_the_layout_of_torchtitan_for_70b_can_be_stated() -> None:
    """FSDP 32 x tensor 8 on 256 GPUs: pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md, table 4."""
    report = answer(scenario_from(question({"preset": "llama-3.1-70b"}, {"data": 32, "tensor": 8})))
    parameters = 80 * LAYER_OF_70B + 2 * 128_256 * 8_192 + 8_192
    assert report.checkpoint.total_bytes == 12 * parameters
    assert report.layout.num_writers == report.layout.num_gpus == 256
    assert report.layout.max_rank_bytes == pytest.approx(12 * parameters / 256, rel=1e-4)


def test_the_layout_of_torchtitan_for_405b_can_be_stated() -> None:
    """FSDP 8 x tensor 8 x pipeline 8 on 512 GPUs, and FSDP 2 x context 4: tables 5 and 6 of the same."""
    stages = {"tensor": 8, "pipeline": 8, "embedding_counts_as_layer": True, "loss_counts_as_layer": True}
    once = answer(scenario_from(question({"preset": "llama-3.1-405b"}, stages | {"data": 8})))
    with_context = answer(scenario_from(question({"preset": "llama-3.1-405b"}, stages | {"data": 2, "context": 4})))
    assert once.layout == with_context.layout.model_copy(update={"num_nodes": once.layout.num_nodes})
    by_stages = {each.stages: each for each in once.layout.rank_classes if each.ranks.endswith(" x 0")}
    embedding = 128_256 * 16_384
    cut = {
        "0": 15 * LAYER_OF_405B + embedding - 15 * 2 * 16_384,
        "1-6": 16 * LAYER_OF_405B - 16 * 2 * 16_384,
        "7": 15 * LAYER_OF_405B + embedding - 15 * 2 * 16_384,
    }
    assert {stage: each.bytes_per_rank for stage, each in by_stages.items()} == {
        stage: 12 * parameters // 64 for stage, parameters in cut.items()
    }


def test_an_embedding_that_is_the_head_too_is_saved_by_both_stages() -> None:
    size = answer(scenario_from(question({"architecture": TIED}, {"pipeline": 2, "data": 2}))).checkpoint
    assert [(row.tensors, row.copies) for row in size.replicated] == [("embedding", 2)]
    assert size.replicated_bytes == 12 * 101 * 48


def test_experts_cut_over_some_of_the_tensor_ranks_must_divide_them() -> None:
    degrees = {"tensor": 4, "data": 3, "expert_tensor": 3}
    with pytest.raises(InvalidInput, match=r"expert_tensor must divide tensor 4 with format fsdp-sharded"):
        size_layout(scenario_from(question({"architecture": EXPERTS}, degrees)))


def test_a_shard_group_that_experts_do_not_divide_is_refused() -> None:
    degrees = {"data": 8, "expert": 4, "shard_group": 2}
    sentence = (
        r"expert must divide tensor x shard_group / expert_tensor = 2, got 4: .* 1 and 2, or set shard_group to 8"
    )
    with pytest.raises(InvalidInput, match=sentence):
        size_layout(scenario_from(question({"architecture": EXPERTS}, degrees)))


def resharded(model: dict[str, Any], saved: dict[str, int], restored: dict[str, int]) -> float:
    """Bytes of the weights that a restore into other degrees reads, over those in the files."""
    blocks = question(model, saved) | {"checkpoint": {"restore_parallelism": restored}}
    return answer(scenario_from(blocks)).restore.parts["weights"].num_readings


WO_AND_W2_OF_70B = 80 * 8_192 * (8_192 + 28_672) / 70_553_706_496
"""What tensor ranks cut by columns and FSDP by rows: a third of the model."""


@pytest.mark.parametrize(
    ("saved", "restored", "of_columns"),
    [((1, 8), (8, 1), 8), ((8, 1), (1, 8), 8), ((2, 4), (4, 2), 2), ((2, 8), (2, 4), 1)],
)
def test_tensor_ranks_that_take_the_place_of_fsdp_ranks_read_whole_rows_of_what_they_cut_by_columns(
    saved: tuple[int, int], restored: tuple[int, int], of_columns: int
) -> None:
    degrees = ({"tensor": tensor, "data": data} for tensor, data in (saved, restored))
    found = resharded({"preset": "llama-3.1-70b"}, *degrees)
    assert found == pytest.approx(1 + (of_columns - 1) * WO_AND_W2_OF_70B, rel=1e-3)


def test_fewer_expert_ranks_read_what_they_need_of_whole_experts() -> None:
    """Eight experts on eight ranks: a rank of four reads two of them, and FSDP cuts nothing of so few."""
    degrees = {"data": 8, "expert": 8}
    assert resharded({"architecture": EXPERTS}, degrees, degrees | {"expert": 4}) == pytest.approx(1.0)


@pytest.mark.parametrize("model", [{"architecture": DENSE}, {"architecture": EXPERTS}], ids=["dense", "experts"])
@pytest.mark.parametrize(
    ("saved", "restored"),
    [
        ({"data": 4}, {"tensor": 4}),
        ({"tensor": 2, "data": 2}, {"tensor": 4, "data": 1}),
        ({"data": 4, "tensor": 2}, {"data": 6}),
        ({"data": 8, "expert": 8}, {"data": 4, "tensor": 2}),
    ],
)
def test_the_shards_that_a_restore_overlaps_are_counted_one_by_one(
    model: dict[str, Any], saved: dict[str, int], restored: dict[str, int]
) -> None:
    """Every saved chunk that shares an element with a restored one is read whole, as PyTorch plans it."""
    if "expert" in saved and model["architecture"] is DENSE:
        saved = {"data": 8}
    before, after = (Parallelism.model_validate(degrees) for degrees in (saved, restored))
    sized = size_layout(scenario_from(question(model, saved)))
    split = LayerSplit.of(before, sized.model.num_layers)
    read = needed = 0
    for one, other in zip(
        tensors_of(sized.model.inventory, before, split, 0),
        tensors_of(sized.model.inventory, after, split, 0),
        strict=True,
    ):
        chunks, wanted = (
            {(tuple(offset), tuple(shape)) for shape, offset in map(each.chunk, range(math.prod(each.mesh)))}
            for each in (one, other)
        )
        held = [chunk for chunk in chunks if math.prod(chunk[1])]
        needed += math.prod(one.shape)
        read += sum(math.prod(chunk[1]) for chunk, want in itertools.product(held, wanted) if overlap(chunk, want))
    assert resharded(model, saved, restored) == pytest.approx(read / needed, rel=0.1)


Chunk = tuple[tuple[int, ...], tuple[int, ...]]


def overlap(one: Chunk, other: Chunk) -> bool:
    """Whether two chunks, each the offsets and the lengths along every dimension, share an element."""
    return all(
        max(start, other_start) < min(start + length, other_start + other_length)
        for start, length, other_start, other_length in zip(*one, *other, strict=True)
    )


@pytest.mark.long
@pytest.mark.parametrize(("saved", "restored"), [(1, 4), (4, 1), (2, 4)])
def test_four_ranks_of_pytorch_read_as_much_in_another_layout_as_is_counted(
    tmp_path: Path, saved: int, restored: int
) -> None:
    """A real save by `fully_shard` and tensor ranks, and a real load: bytes of the saved shards that ranks open."""
    module, paths = "tests.sizing.layout.resharding_rank", (str(tmp_path / "meeting"), str(tmp_path / "checkpoint"))
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", module, str(rank), "4", *paths, str(saved), str(restored)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(4)
    ]
    printed = [rank.communicate(timeout=300) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * 4, printed
    read_bytes = sum(json.loads(out.splitlines()[-1])["read_bytes"] for out, _ in printed)
    model_bytes = 4 * answer(scenario_from({"model": {"architecture": ARCHITECTURE}})).model.num_parameters
    degrees = ({"tensor": tensor, "data": 4 // tensor} for tensor in (saved, restored))
    assert read_bytes / model_bytes == pytest.approx(resharded({"architecture": ARCHITECTURE}, *degrees), rel=0.01)


class Planned(NamedTuple):
    """Bytes that each rank writes, and whether there are tensors that several tensor ranks hold."""

    rank_bytes: dict[int, int]
    has_repeated: bool


class Tensor(NamedTuple):
    """One tensor of the model, whole, and its cuts: over (copies, shards, tensor), or copies, shards, experts, tensor."""

    name: str
    shape: tuple[int, ...]
    mesh: tuple[int, ...]
    placements: tuple[Placement, ...]

    @property
    def is_repeated(self) -> bool:
        return self.mesh[-1] > 1 and isinstance(self.placements[-1], Replicate)

    def chunk(self, position: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the shape and the offset of what a rank of the mesh has."""
        coordinate: list[int] = []
        for extent in reversed(self.mesh):
            position, index = divmod(position, extent)
            coordinate.insert(0, index)
        return _compute_local_shape_and_global_offset(self.shape, self.mesh, coordinate, self.placements)


def written(document: dict[str, Any]) -> tuple[dict[int, int], Planned]:
    """By rank what is predicted, and what PyTorch plans from the plans of all ranks."""
    scenario = scenario_from(document)
    predicted = {saving.rank: saving.num_bytes for saving in saved_by_rank_of(scenario).ranks}
    asked, degrees = size_layout(scenario), scenario.parallelism
    split = LayerSplit.of(degrees, asked.model.num_layers)
    has_repeated, plans = False, []
    for stage, position in itertools.product(range(degrees.pipeline), range(degrees.ranks_per_stage)):
        tensors = list(tensors_of(asked.model.inventory, degrees, split, stage))
        items = [item(part, tensor, position) for part in PARTS for tensor in tensors]
        has_repeated = has_repeated or any(tensor.is_repeated for tensor in tensors)
        plans.append(SavePlan(items))
    planned = [sum(map(size, plan.items)) for plan in dedup_save_plans(plans)]
    return predicted, Planned({rank: num_bytes for rank, num_bytes in enumerate(planned) if num_bytes}, has_repeated)


def tensors_of(
    inventory: Sequence[TensorGroup], degrees: Parallelism, split: LayerSplit, stage: int
) -> Iterator[Tensor]:
    """Every tensor of a stage, with the layers in their order."""
    last = degrees.pipeline - 1
    layers = [layer for chunk in split.chunks_on(stage) for layer in chunk]
    for group in inventory:
        stands = {"first-stage": stage == 0, "last-stage": stage == last, "layers": True}[group.placement]
        held = [layer for layer in layers if layer in group.layers] if group.placement == "layers" else [-1]
        for layer, number in itertools.product(held if stands else [], range(group.count)):
            yield placed(f"{group.name}.{layer}.{number}", group, degrees)


def placed(name: str, group: TensorGroup, degrees: Parallelism) -> Tensor:
    """A tensor cut by tensor and expert ranks, then by FSDP along the first dimension of what each has."""
    shards = degrees.shard_ranks
    copies = degrees.num_replicas // shards
    if not group.experts:
        cut: Placement = Shard(group.cut) if group.pieces > 1 else Replicate()
        by_rows = _StridedShard(0, split_factor=degrees.tensor) if cut == Shard(0) and degrees.tensor > 1 else Shard(0)
        return Tensor(name, group.shape, (copies, shards, degrees.tensor), (Replicate(), by_rows, cut))
    expert, expert_tensor = degrees.expert, degrees.expert_tensor_degree
    expert_shards = degrees.num_expert_replicas // copies
    over_width = expert > 1 and expert * expert_shards > group.experts
    cut = Shard(group.cut + 1) if group.pieces > 1 else Replicate()
    dimension, factor = (1, expert_tensor if cut == Shard(1) else 1) if over_width else (0, expert)
    sharded = _StridedShard(dimension, split_factor=factor) if factor > 1 else Shard(dimension)
    mesh = (copies, expert_shards, expert, expert_tensor)
    return Tensor(name, (group.experts, *group.shape), mesh, (Replicate(), sharded, Shard(0), cut))


def item(part: str, tensor: Tensor, position: int) -> WriteItem:
    """What a rank asks to write of a tensor."""
    shape, offset = tensor.chunk(position)
    chunk = ChunkStorageMetadata(torch.Size(offset), torch.Size(shape))
    data = TensorWriteData(chunk, TensorProperties(dtype=torch.float32), torch.Size(tensor.shape))
    return WriteItem(MetadataIndex(f"{part}.{tensor.name}", chunk.offsets), WriteItemType.SHARD, tensor_data=data)


def size(planned: WriteItem) -> int:
    """Bytes of a shard; the planner itself counts those of the whole tensor."""
    assert planned.tensor_data is not None
    return planned.tensor_data.chunk.sizes.numel() * torch.float32.itemsize
