"""Each part is read as often as format and strategy say, and what is read once is passed on over the network."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing.errors import InvalidInput
from sizing.published import published
from sizing.questions.answer.first_screen import first_screen
from sizing.questions.registry import REQUIRE
from sizing.report import SizingReport, answer
from sizing.run.read_plan import overlapping_shards
from sizing.run.restore import Restore
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from tests.sizing.run.scenarios import ASYNC, document, report, write_of

FACTS = published("vast_checkpoint_example")["one_trillion"]
GATHERED = {"checkpoint": {"format": "megatron-distributed-optimizer", "optimizer_sharding": None, "mode": "sync"}}
PARAMETERS = 405_853_388_800


def by_strategy(restore: Restore) -> dict[str, float]:
    return {alternative.strategy: alternative.read_seconds for alternative in restore.strategies}


def test_the_reference_run_reads_in_82_8_s_or_once_in_13_8_s() -> None:
    restore = report().restore
    assert restore.bytes_per_second_for_write_time == pytest.approx(FACTS["restore_bytes_per_second"])
    assert by_strategy(restore) == pytest.approx(
        {"every-replica": 82.8, "read-once-broadcast": 13.8, "parallel-read-exchange": 13.8}
    )


@pytest.mark.parametrize(("strategy", "share"), [("read-once-broadcast", 1.0), ("parallel-read-exchange", 5 / 6)])
def test_what_was_read_once_reaches_every_node_over_its_network(strategy: str, share: float) -> None:
    restore = report(checkpoint={"restore": strategy}).restore
    held_by_a_node = 13.8e12 / 64
    assert restore.read_bytes == pytest.approx(13.8e12)
    assert restore.exchange_seconds == pytest.approx(held_by_a_node * share / 200e9)
    assert restore.seconds == pytest.approx(13.8 + held_by_a_node * share / 200e9)
    assert {part.num_readings for part in restore.parts.values()} == {1}


def test_one_replica_reads_through_its_nodes_and_a_parallel_read_through_all() -> None:
    slow_nodes = {"profile": {"write_bytes_per_second": "273 GB/s", "node_read_bytes_per_second": "1 GB/s"}}
    found = report(storage=slow_nodes)
    seconds, fullest = by_strategy(found.restore), found.layout.max_node_bytes / 1e9
    assert fullest == pytest.approx(29.83 / 26.95 * 13_800 / 64, rel=1e-3)
    assert seconds["read-once-broadcast"] == pytest.approx(fullest)
    assert seconds["parallel-read-exchange"] == pytest.approx(fullest / 6)


def test_a_sharded_optimizer_is_read_once_whatever_the_strategy() -> None:
    weights, optimizer = 2 * PARAMETERS, 12 * PARAMETERS
    every = report(ASYNC, **GATHERED).restore
    assert every.read_bytes == pytest.approx(108.8e12, rel=1e-3)
    assert every.read_bytes == pytest.approx(128 * weights + optimizer, rel=1e-3)
    once = report(ASYNC, checkpoint={**GATHERED["checkpoint"], "restore": "read-once-broadcast"}).restore
    assert once.read_bytes == pytest.approx(weights + optimizer, rel=1e-3)
    assert [part.num_readings for part in once.parts.values()] == [1, 1, 1]


def test_ranks_that_deal_out_what_they_read_send_it_from_their_nodes() -> None:
    restore = report(ASYNC, **GATHERED).restore
    assert restore.exchange_seconds == pytest.approx(12 * PARAMETERS / 16 / 400e9, rel=1e-3)


def test_every_rank_reads_the_metadata_of_a_distributed_checkpoint() -> None:
    found = report(ASYNC)
    metadata = found.restore.parts[".metadata"]
    assert metadata.read_bytes == 16_384 * found.checkpoint.small_state_bytes[".metadata"]
    assert metadata.num_readings == 16_384
    assert ".metadata" not in report(ASYNC, **GATHERED).restore.parts
    assert sum(part.read_bytes for part in found.restore.parts.values()) == found.restore.read_bytes


def test_the_busiest_rank_reads_its_weights_and_its_share_of_the_rest() -> None:
    restore = report().restore
    layout = report().layout
    assert restore.max_rank_read_bytes == pytest.approx(layout.max_rank_bytes, rel=1e-6)
    assert restore.mean_rank_read_bytes == pytest.approx(13.8e12 / 512)


UNEVEN_STAGES = {
    "model": {"preset": "llama-3.1-70b"},
    "training": {"framework": "megatron"},
    "parallelism": {"tensor": 8, "pipeline": 4, "layers_per_stage": [32, 16, 16, 16]},
    "checkpoint": {"format": "megatron"},
    "cluster": {"node": "dgx-h100"},
}


@pytest.mark.parametrize(("name", "num_ranks"), [("writer", 1), ("node", 8)])
@pytest.mark.parametrize("tensor", [8, 1])
def test_a_restore_waits_for_the_rank_and_the_node_that_read_most(name: str, num_ranks: int, tensor: int) -> None:
    """Each rank reads what it wrote, so that both wait for the same one; with one tensor rank a node has all stages."""
    rates = {f"{name}_read_bytes_per_second": 1e9, f"{name}_write_bytes_per_second": 1e9}
    found = report(UNEVEN_STAGES, parallelism={"tensor": tensor}, storage={"profile": rates})
    assert found.restore.read_seconds == pytest.approx(write_of(found).seconds, rel=1e-6)
    if tensor == 8:
        assert found.restore.read_seconds == pytest.approx(num_ranks * 49.76, rel=1e-3)


@pytest.mark.parametrize("strategy", ["every-replica", "read-once-broadcast", "parallel-read-exchange"])
def test_equal_shards_are_read_in_equal_times(strategy: str) -> None:
    fsdp = {"model": {"preset": "llama-3.1-8b"}, "training": {"framework": "fsdp2"}, "cluster": {"node": "dgx-h100"}}
    rates = {"read_bytes_per_second": 1e13, "writer_read_bytes_per_second": 1e9}
    parallelism = {"data": 64, "shard_group": 16}
    found = report(fsdp, parallelism=parallelism, checkpoint={"restore": strategy}, storage={"profile": rates})
    num_readers = 16 if strategy == "read-once-broadcast" else 64
    of_tensors = sum(part.read_bytes for name, part in found.restore.parts.items() if name != ".metadata")
    of_metadata = found.restore.parts[".metadata"].read_bytes
    assert found.restore.read_seconds == pytest.approx((of_tensors / num_readers + of_metadata / 64) / 1e9, rel=1e-6)
    assert found.restore.read_seconds == pytest.approx(found.restore.max_rank_read_bytes / 1e9, rel=1e-6)


@pytest.mark.parametrize(
    ("framework", "degrees", "files", "num_opened"),
    [
        ("deepspeed", {"data": 64, "zero_stage": 1}, {}, 64 + 64),
        ("deepspeed", {"data": 64, "zero_stage": 3}, {}, 64 + 64),
        ("megatron", {"data": 64}, {"format": "megatron-distributed-optimizer"}, 64 + 1),
        ("megatron", {"tensor": 8, "pipeline": 4, "data": 8}, {"optimizer_sharding": "dp-reshardable"}, 256 * 8 + 256),
        ("fsdp2", {"data": 64, "shard_group": 8}, {"restore": "every-replica"}, 64 * 8 + 64),
        ("fsdp2", {"data": 64, "shard_group": 8}, {"restore": "read-once-broadcast"}, 64 + 64),
    ],
)
def test_a_file_is_opened_by_every_rank_that_reads_in_it(
    framework: str, degrees: dict[str, Any], files: dict[str, Any], num_opened: int
) -> None:
    """Of files of weights each rank opens its own, of an optimizer its share; `.metadata` each rank."""
    scenario = {
        "model": {"preset": "llama-2-7b"},
        "training": {"framework": framework} | ({"distributed_optimizer": True} if framework == "megatron" else {}),
        "parallelism": degrees,
        "checkpoint": files,
        "storage": {"profile": {"read_bytes_per_second": 1e12, "read_files_per_second": 1.0}},
    }
    (opening,) = (limit for limit in report(scenario).restore.limits if limit.resource == "metadata")
    assert opening.seconds == num_opened


@pytest.mark.parametrize("cache_bytes", [0.5e12, 1e12, 1.2e12, 2.5e12])
@pytest.mark.parametrize("reduction", [{}, {"delta": {"fraction": 0.1, "full_every": 4}}])
def test_the_steps_of_a_restore_share_the_cache(cache_bytes: float, reduction: dict[str, Any]) -> None:
    """All weights are read first, by every replica, then the optimizer once."""
    profile = {"beyond_cache_read_bytes_per_second": 1e10, "read_cache_bytes": cache_bytes}
    found = report(
        UNEVEN_STAGES,
        training={"distributed_optimizer": True},
        parallelism={"data": 8, "layers_per_stage": None},
        checkpoint={"format": "megatron-distributed-optimizer", "reduction": reduction or None},
        storage={"profile": profile | {"read_bytes_per_second": 1e15}},
    )
    beyond = max(0.0, found.restore.read_bytes - cache_bytes)
    assert found.restore.read_seconds == pytest.approx(beyond / 1e10, abs=0.01)


def restored(**blocks: Any) -> Restore:
    """A restore of 8 nodes."""
    return answer(scenario_from({"cluster": {"node": "dgx-h100"}, **blocks})).restore


@pytest.mark.parametrize(
    ("strategy", "num_readers"), [("every-replica", 16), ("read-once-broadcast", 16), ("parallel-read-exchange", 64)]
)
def test_with_shard_groups_the_busiest_rank_reads_its_shard_or_with_its_copies_a_share_of_it(
    strategy: str, num_readers: int
) -> None:
    hybrid = {"training": {"framework": "fsdp2"}, "parallelism": {"data": 64, "shard_group": 16}}
    restore = restored(model={"preset": "llama-3.1-70b"}, checkpoint={"restore": strategy}, **hybrid)
    assert restore.max_rank_read_bytes == pytest.approx(12 * 70_553_706_496 / num_readers, rel=1e-3)
    if strategy == "every-replica":
        assert restore.mean_rank_read_bytes == pytest.approx(restore.max_rank_read_bytes, rel=1e-3)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_rank_that_has_a_whole_expert_reads_it(optimizer: str) -> None:
    """8 experts over 64 ranks are whole on 8 of them, which write and read almost all of it."""
    found = answer(
        scenario_from(
            {
                "model": {"preset": "mixtral-8x7b"},
                "training": {"framework": "fsdp2", "optimizer": optimizer},
                "parallelism": {"data": 64},
                "cluster": {"node": "dgx-h100"},
                "storage": {"profile": {"read_bytes_per_second": 1e15, "writer_read_bytes_per_second": 1e9}},
            }
        )
    )
    assert found.restore.max_rank_read_bytes == pytest.approx(found.layout.max_rank_bytes, rel=0.005)
    assert found.restore.read_seconds == pytest.approx(found.restore.max_rank_read_bytes / 1e9, rel=1e-3)
    assert found.restore.max_rank_read_bytes > 7 * found.restore.mean_rank_read_bytes


def test_without_zero_expert_ranks_read_the_optimizer_of_two_files() -> None:
    """Each rank reads the file of its model-parallel rank and that of its expert rank, which have the same."""
    blocks = {"training": {"framework": "deepspeed"}, "parallelism": {"data": 64, "expert": 8, "zero_stage": 0}}
    restore = restored(model={"preset": "mixtral-8x7b"}, **blocks)
    assert restore.max_rank_read_bytes == pytest.approx(restore.mean_rank_read_bytes, rel=1e-3)
    together = restored(model={"preset": "mixtral-8x7b"}, checkpoint={"restore": "parallel-read-exchange"}, **blocks)
    assert together.max_rank_read_bytes == pytest.approx(together.mean_rank_read_bytes, rel=1e-3)


WEIGHTS_OF_70B, MOMENTS_OF_70B = 4 * 70_553_706_496, 8 * 70_553_706_496


@pytest.mark.parametrize(
    ("framework", "read_bytes", "host_bytes"),
    [
        # every rank the whole file
        ("lightning", 64 * (WEIGHTS_OF_70B + MOMENTS_OF_70B), 8 * (WEIGHTS_OF_70B + MOMENTS_OF_70B)),
        # FSDP1: every rank the weights, rank 0 the optimizer
        ("accelerate", 64 * WEIGHTS_OF_70B + MOMENTS_OF_70B, 8 * WEIGHTS_OF_70B + MOMENTS_OF_70B),
        # FSDP2: rank 0 both, of the two files of weights one
        ("transformers", WEIGHTS_OF_70B + MOMENTS_OF_70B, WEIGHTS_OF_70B + MOMENTS_OF_70B),
    ],
)
def test_a_full_state_of_fsdp_is_read_by_the_ranks_that_its_trainer_lets_read(
    framework: str, read_bytes: int, host_bytes: int
) -> None:
    """Source: Lightning 2.6, strategies/fsdp.py; accelerate 1.15, utils/fsdp_utils.py; transformers 5.23, trainer.py."""
    found = answer(
        scenario_from(
            {
                "model": {"preset": "llama-3.1-70b"},
                "training": {"framework": framework},
                "parallelism": {"data": 64, "shard_group": 64},
                "cluster": {"node": "dgx-h100"},
            }
        )
    )
    assert found.restore.read_bytes == pytest.approx(read_bytes, rel=1e-4)
    assert found.restore.max_rank_read_bytes == pytest.approx(WEIGHTS_OF_70B + MOMENTS_OF_70B, rel=1e-4)
    assert found.host_memory.restore_bytes == pytest.approx(host_bytes, rel=1e-4)
    assert found.host_memory.fits_restore is (host_bytes < 2e12)


def test_ranks_that_read_a_full_state_once_share_its_reading() -> None:
    blocks = {"training": {"framework": "lightning"}, "parallelism": {"data": 64, "shard_group": 64}}
    restore = restored(model={"preset": "llama-3.1-70b"}, checkpoint={"restore": "read-once-broadcast"}, **blocks)
    assert restore.read_bytes == pytest.approx(WEIGHTS_OF_70B + MOMENTS_OF_70B, rel=1e-4)
    assert restore.max_rank_read_bytes == pytest.approx(restore.mean_rank_read_bytes, rel=1e-4)


@pytest.mark.parametrize(
    ("model", "framework", "degrees", "held_by_a_node", "num_nodes"),
    [
        ("llama-3.1-70b", "fsdp2", {"data": 64, "shard_group": 1}, 12 * 70_553_706_496, 8),
        ("llama-3.1-70b", "fsdp2", {"data": 64, "shard_group": 8}, 12 * 70_553_706_496, 8),
        ("llama-3.1-70b", "deepspeed", {"data": 64}, 2 * 70_553_706_496, 8),
        ("mixtral-8x7b", "megatron", {"data": 16, "expert": 8}, 14 * 46_702_792_704, 2),
        ("llama-3.1-70b", "megatron", {"data": 4, "tensor": 2, "pipeline": 8}, 0, 1),  # all copies stand on one node
    ],
)
@pytest.mark.parametrize("strategy", ["read-once-broadcast", "parallel-read-exchange"])
def test_what_ranks_of_a_node_hold_alike_reaches_it_once(
    model: str, framework: str, degrees: dict[str, int], held_by_a_node: int, num_nodes: int, strategy: str
) -> None:
    rates = {"write_bytes_per_second": 1e11, "read_bytes_per_second": 1e11}
    restore = restored(
        model={"preset": model},
        training={"framework": framework},
        parallelism=degrees,
        checkpoint={"restore": strategy},
        storage={"profile": rates},
    )
    share = 1.0 if strategy == "read-once-broadcast" else (num_nodes - 1) / num_nodes
    assert restore.exchange_seconds == pytest.approx(held_by_a_node * share / 400e9, rel=1e-3)


def test_time_to_first_step_is_held_against_its_target() -> None:
    reliability = {"restart_seconds": None, "detection_seconds": 30, "relaunch_seconds": 90}
    found = report(targets={"recovery_seconds": 202}, reliability=reliability)
    assert found.restore.time_to_first_step_seconds == pytest.approx(202.8)
    assert {check.target: check.met for check in found.targets}["recovery_seconds"] is False


def test_a_measured_restart_that_takes_longer_is_held_against_the_target() -> None:
    reliability = {"detection_seconds": 60, "restart_seconds": 1200}
    found = report(targets={"recovery_seconds": 300}, reliability=reliability)
    assert found.restore.time_to_first_step_seconds == 1260
    assert {check.target: check.met for check in found.targets}["recovery_seconds"] is False
    assert found.required.restore_bytes_per_second is None
    (asked,) = (
        r
        for r in REQUIRE.answer(
            document(REFERENCE_SCENARIO, targets={"recovery_seconds": 300}, reliability=reliability)
        ).requirements
        if r.target == "recovery_seconds"
    )
    assert (asked.status, asked.reason) == (
        "none",
        "max recovery (RTO) 5.0 min: not met at any value; reliability.restart_seconds alone is 20.0 min",
    )


def test_a_measured_restart_is_no_shorter_than_its_restore_in_every_figure() -> None:
    """All ranks read 82.8 TB at 1 TB/s; the lost time is that of a run that relaunches at once and reads so long."""
    short = report(reliability={"detection_seconds": 60, "restart_seconds": 10})
    computed = report(reliability={"detection_seconds": 60, "restart_seconds": None, "relaunch_seconds": 0})
    for found in (short, computed):
        assert found.restore.time_to_first_step_seconds == pytest.approx(142.8)
        assert found.interval.recovery_seconds == pytest.approx(142.8)
    assert short.interval.lost_at_interval_fraction == computed.interval.lost_at_interval_fraction
    assert any(
        "shorter than the restore, which reads for 82.80 s and counts instead" in each for each in short.warnings
    )


def test_a_restart_of_zero_leaves_the_restart_out_and_the_answer_says_so() -> None:
    """As published arithmetic of lost work does, which knows no restart."""
    found = report(reliability={"detection_seconds": 0, "restart_seconds": 0})
    assert found.interval.recovery_seconds == 0
    assert found.interval.leaves_out_restart
    (lost,) = (row for row in first_screen(found).figures if row.label == "Lost time")
    assert lost.figure.startswith("at least ")
    assert lost.meaning.endswith("; relaunch and restore left out")
    assert "the run loses at least" in first_screen(found).verdict
    assert any("leaves relaunch and a restore of 82.80 s out of lost time" in each for each in found.warnings)


@pytest.mark.parametrize("strategy", ["every-replica", "read-once-broadcast", "parallel-read-exchange"])
def test_the_required_read_rate_meets_the_recovery_target_exactly(strategy: str) -> None:
    targets, checkpoint = {"recovery_seconds": 400}, {"restore": strategy}
    rate = report(ASYNC, targets=targets, checkpoint=checkpoint).required.restore_bytes_per_second
    profile = {"write_bytes_per_second": "100 GB/s", "read_bytes_per_second": rate}
    again = report(ASYNC, targets=targets, checkpoint=checkpoint, storage={"profile": profile})
    assert again.restore.time_to_first_step_seconds == pytest.approx(400, rel=1e-9)


def recovering(profile: dict[str, Any]) -> SizingReport:
    """Weights that 8 replicas read, and an optimizer whose shares each rank reads once: two steps of a restore."""
    return answer(
        scenario_from(
            {
                "model": {"preset": "llama-3.1-70b"},
                "training": {"framework": "megatron", "distributed_optimizer": True},
                "parallelism": {"tensor": 8, "pipeline": 4, "data": 8},
                "cluster": {"node": "dgx-h100"},
                "checkpoint": {"format": "megatron-distributed-optimizer"},
                "storage": {"profile": {"write_bytes_per_second": 1e11, "fixed_read_seconds": 5, **profile}},
                "reliability": {"mtbf_seconds": 36_000, "detection_seconds": 60, "relaunch_seconds": 120},
                "targets": {"recovery_seconds": 240},
            }
        )
    )


def test_the_required_read_rate_of_several_steps_counts_nodes_and_readers_at_their_given_rates() -> None:
    given = {"node_read_bytes_per_second": 4e10, "writer_read_bytes_per_second": 5e9}
    rate = recovering({"read_bytes_per_second": 3.5e10, **given}).required.restore_bytes_per_second
    assert rate == pytest.approx(8 * 2 * 70_553_706_496 / 54.47 + 12 * 70_553_706_496 / 54.47, rel=1e-3)
    again = recovering({"read_bytes_per_second": rate, **given})
    assert again.restore.time_to_first_step_seconds == pytest.approx(240, rel=1e-9)


def test_where_the_given_rates_of_readers_are_too_slow_the_required_read_rate_goes_with_faster_ones() -> None:
    slow = {"read_bytes_per_second": 3.5e10, "writer_read_bytes_per_second": 1e8}
    rate = recovering(slow).required.restore_bytes_per_second
    assert rate is not None
    freed = {"read_bytes_per_second": rate, "writer_read_bytes_per_second": rate}
    seconds = recovering(freed).restore.time_to_first_step_seconds
    assert seconds is not None
    assert seconds <= 240


def test_an_unpublished_network_is_said_to_be_left_out() -> None:
    node = {"node": None, "node_spec": {"gpus_per_node": 8}, "num_gpus": None}
    found = report(cluster=node, checkpoint={"restore": "read-once-broadcast"})
    assert found.restore.exchange_seconds == 0
    assert any("compute network is not published" in warning for warning in found.warnings)


@given(st.integers(1, 60), st.integers(1, 60))
def test_overlapping_shards_are_counted(saved: int, restored: int) -> None:
    rows = saved * restored
    pairs = {(row // restored, row // saved) for row in range(rows)}
    assert overlapping_shards(saved, restored) == len(pairs)


def test_orbax_reads_whole_chunks_that_two_axes_have_cut() -> None:
    """Tensor ranks and the shard group of MaxText cut a dimension each, and a chunk is compressed as a whole."""
    blocks: dict[str, Any] = {"model": {"preset": "llama-3.1-70b"}, "training": {"framework": "maxtext"}}
    blocks["parallelism"] = {"tensor": 2, "data": 4}
    for tensor, data, num_readings in ((4, 2, 2.0), (2, 2, 1.0), (2, 8, 2.0)):
        found = restored(checkpoint={"restore_parallelism": {"tensor": tensor, "data": data}}, **blocks)
        assert found.parts["weights"].num_readings == pytest.approx(num_readings, rel=1e-3)


RESHARDED = {"restore_parallelism": {"tensor": 4, "pipeline": 8, "data": 64}}


def test_another_layout_reads_weights_and_optimizer_as_often_as_it_has_replicas() -> None:
    same, other = report(ASYNC).restore, report(ASYNC, checkpoint=RESHARDED).restore
    assert other.num_gpus == 2048
    assert same.parts["weights"].num_readings == 128
    assert other.parts["weights"].num_readings == other.parts["master"].num_readings == 64
    assert other.parts[".metadata"].num_readings == 2048


def test_shards_that_do_not_line_up_are_read_more_than_once() -> None:
    checkpoint = {"restore_parallelism": {"data": 48}}
    fsdp = {"model": {"preset": "llama-3.1-8b"}, "training": {"framework": "fsdp2"}, "parallelism": {"data": 64}}
    restore = report(fsdp, checkpoint=checkpoint).restore
    of_keys_and_values = 32 * 2 * 1_024 * 4_096 / 8_030_261_248  # 1,024 rows lie on 47 of the 48 ranks, 22 on each
    expected = (64 + 48 - 16) / 64 + of_keys_and_values * ((64 + 47 - 1) - (64 + 48 - 16)) / 64
    assert restore.parts["moments"].num_readings == pytest.approx(expected)
    finer = report(fsdp, checkpoint={"restore_parallelism": {"data": 128}}).restore
    assert finer.parts["moments"].num_readings == 2


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (
            {
                "training": {"distributed_optimizer": False},
                "checkpoint": {
                    "format": "megatron",
                    "optimizer_sharding": None,
                    "mode": "sync",
                    "restore_parallelism": {"tensor": 4, "pipeline": 16},
                },
            },
            r"restore_parallelism\.tensor must equal parallelism\.tensor 8 with format megatron, .* got 4",
        ),
        (
            {"checkpoint": {"restore_parallelism": {"tensor": 3}}},
            r"checkpoint\.restore_parallelism\.tensor must divide num_attention_heads 128, got 3",
        ),
        ({"checkpoint": {"restore": "twice"}}, r"checkpoint\.restore must be one of 'every-replica'"),
    ],
)
def test_a_layout_that_the_files_cannot_be_read_into_is_refused(blocks: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        report(ASYNC, **blocks)


def test_replicas_may_change_in_every_megatron_format() -> None:
    classic = document(
        ASYNC, training={"distributed_optimizer": False}, checkpoint={"format": "megatron", "optimizer_sharding": None}
    )
    checkpoint = {"mode": "sync", "restore_parallelism": {"tensor": 8, "pipeline": 16, "data": 4}}
    more = report(classic, checkpoint=checkpoint)
    assert {part.num_readings for part in more.restore.parts.values()} == {4}
