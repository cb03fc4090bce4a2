from __future__ import annotations

import pytest
import torch

from io_bench.payload.inventory import Inventory, TensorSpec, inventory_of
from io_bench.payload.payload import ResidentPayload, tensors_of
from io_bench.payload.workload import ScenarioWorkload, SizedWorkload, scale_tensors
from sizing.scenario import Scenario, scenario_from
from sizing.sized_layout import manifest_of, saved_by_rank_of
from sizing.units import bytes_text


def scenario(**degrees: int) -> Scenario:
    return scenario_from({"model": {"preset": "gpt2"}, "parallelism": degrees, "checkpoint": {"format": "megatron"}})


def workload(scale: float = 1.0, **degrees: int) -> ScenarioWorkload:
    return ScenarioWorkload(saved_by_rank_of(scenario(**degrees)), scale)


def test_at_full_scale_each_writer_has_the_bytes_of_its_files_in_the_manifest() -> None:
    of_rank = {row.rank: row.tensor_bytes for row in manifest_of(scenario(tensor=2, pipeline=3))}
    inventories = [workload(tensor=2, pipeline=3).inventory(index) for index in range(6)]
    assert [inventory.num_bytes for inventory in inventories] == [of_rank[rank] for rank in sorted(of_rank)]


def test_a_payload_is_the_tensors_that_sizing_names_in_torchs_dtypes() -> None:
    inventory = workload(tensor=2, pipeline=6, scale=1).inventory(2)
    state = ResidentPayload(inventory, seed=1, rank=0, device="cpu").state
    assert state["weights"]["attention.query.0"].dtype == torch.bfloat16
    assert state["weights"]["attention.query.0"].shape == (384, 768)
    assert state["master"]["norm.3"].dtype == torch.float32
    assert sum(t.numel() * t.itemsize for _, t in tensors_of(state)) == inventory.num_bytes


@pytest.mark.parametrize("scale", [0.5, 0.1, 0.01, 0.001])
def test_scaled_tensors_keep_number_names_and_dtypes_and_have_that_part_of_the_bytes(scale: float) -> None:
    whole, part = workload(tensor=2).inventory(1), workload(scale, tensor=2).inventory(1)
    assert [(t.part, t.name, t.dtype) for t in part.tensors] == [(t.part, t.name, t.dtype) for t in whole.tensors]
    assert part.num_bytes == pytest.approx(whole.num_bytes * scale, rel=0.002)


def test_values_that_tiny_tensors_must_keep_are_made_good_by_large_ones() -> None:
    norms, matrix = (
        [TensorSpec("a", f"n{i}", (4,), "float32") for i in range(50)],
        TensorSpec("a", "m", (99, 9), "uint8"),
    )
    sizes = [tensor.num_bytes for tensor in scale_tensors([*norms, matrix], 0.25)]
    assert sizes[:50] == [4] * 50
    smaller = list(scale_tensors([*norms, *norms, matrix], 0.01))
    assert all(tensor.num_bytes for tensor in smaller)


def test_scaling_by_one_changes_nothing_and_every_tensor_keeps_a_value() -> None:
    tensors = inventory_of(1 << 20).tensors
    assert tuple(scale_tensors(tensors, 1.0)) == tensors
    tiny = Inventory(
        tuple(scale_tensors([TensorSpec("a", "s", (), "float32"), TensorSpec("a", "e", (0, 3), "uint8")], 0.1))
    )
    assert [tensor.shape for tensor in tiny.tensors] == [(1,), (0, 3)]


def test_fewer_ranks_than_writers_write_what_the_first_write_and_say_so() -> None:
    some = workload(0.01, tensor=2, pipeline=4)
    assert some.max_writers == 8
    of_rank = {row.rank: row.tensor_bytes for row in manifest_of(scenario(tensor=2, pipeline=4))}
    assert some.describe(3) == (
        f"The scenario's checkpoint has {bytes_text(sum(of_rank.values()))}, from 8 writers on 1 node. "
        "This run writes the first 3 of them (ranks 0, 1, 2 of the scenario): "
        f"{bytes_text(sum(of_rank[rank] for rank in (0, 1, 2)))} scaled by 0.01."
    )
    assert "This run writes all of them (ranks 0, 1, 2, 3, ... of the scenario)" in some.describe(8)


def test_a_size_is_the_same_for_every_writer() -> None:
    sized = SizedWorkload(5 << 20)
    assert sized.inventory(0) == sized.inventory(7) == inventory_of(5 << 20)
    assert (sized.max_writers, sized.describe(3)) == (None, "")
