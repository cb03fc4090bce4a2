"""The reference run reproduces its published figures, and the report says what it rests on."""

import copy
from typing import Any

import pytest

from sizing.published import published
from sizing.report import SizingReport, answer
from sizing.run.write import Write
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from sizing.sized_layout import _size_layout

FACTS = published("vast_checkpoint_example")["one_trillion"]


def report_with(**blocks: Any) -> SizingReport:
    """The report of the reference scenario with some blocks replaced, in its format; None takes a block out."""
    document = copy.deepcopy(REFERENCE_SCENARIO) | blocks
    document["checkpoint"] = {"format": "megatron"} | document["checkpoint"]
    return answer(scenario_from({name: block for name, block in document.items() if block is not None}))


def write_of(report: SizingReport) -> Write:
    assert report.write is not None
    return report.write


@pytest.fixture(scope="module")
def reference() -> SizingReport:
    return report_with()


def test_the_state_is_within_three_percent_of_what_was_observed(reference: SizingReport) -> None:
    size = reference.checkpoint
    assert reference.model.num_parameters == FACTS["num_parameters_exact"]
    assert size.logical_bytes == FACTS["logical_bytes_at_14"]
    assert size.bytes_per_parameter == 14
    assert size.observed_over_logical == pytest.approx(13.8 / 14.1125426176)
    assert size.logical_bytes == pytest.approx(FACTS["checkpoint_bytes"], rel=0.03)


def test_what_the_files_repeat_stands_apart(reference: SizingReport) -> None:
    size = reference.checkpoint
    hidden, layers, bytes_each = 25_600, 128, 14
    norms_and_biases = 7 * (6 * layers + 2) * hidden * bytes_each
    positions = 7 * 2_048 * hidden * bytes_each
    second_embedding = 51_200 * hidden * bytes_each
    assert size.replicated_bytes == norms_and_biases + positions + second_embedding
    assert size.total_bytes == size.logical_bytes + size.replicated_bytes
    assert size.total_bytes == pytest.approx(14.138e12, rel=1e-4)


def test_one_replica_writes(reference: SizingReport) -> None:
    layout = reference.layout
    assert layout.num_gpus == FACTS["num_gpus"]
    assert layout.num_nodes == FACTS["num_nodes"]
    assert layout.num_writers == reference.checkpoint.num_files == FACTS["num_writers"]
    assert layout.num_writing_nodes == FACTS["num_writing_nodes"]


def test_the_observed_size_gives_the_published_times_and_rates(reference: SizingReport) -> None:
    write = write_of(reference)
    assert write.seconds == pytest.approx(FACTS["write_seconds"], rel=1e-4)
    assert write.stall_seconds == write.seconds
    assert write.per_writer_bytes_per_second == pytest.approx(FACTS["write_bytes_per_second_per_gpu"], rel=1e-4)
    assert write.per_node_bytes_per_second == pytest.approx(FACTS["write_bytes_per_second_per_node"], rel=1e-3)
    assert reference.overhead.fraction == pytest.approx(FACTS["overhead_fraction"], rel=1e-3)
    assert reference.overhead.meets_target
    rate = reference.restore.bytes_per_second_for_write_time
    assert rate == pytest.approx(FACTS["restore_bytes_per_second"])
    required = reference.required.write_bytes_per_second
    assert required == pytest.approx(FACTS["required_write_bytes_per_second_for_5_percent"])


def test_six_replicas_read_everything_again(reference: SizingReport) -> None:
    restore = reference.restore
    assert restore.read_bytes == pytest.approx(6 * 13.8e12)
    assert restore.seconds == pytest.approx(82.8)
    assert sum(part.read_bytes for part in restore.parts.values()) == restore.read_bytes
    assert {part.num_readings for part in restore.parts.values()} == {6}


def test_the_lost_work_stands_beside_the_overhead(reference: SizingReport) -> None:
    lost, interval = FACTS["lost_work"], reference.interval
    assert interval.mtbf_seconds == pytest.approx(lost["mtbf_seconds"])
    assert interval.optimal_seconds == pytest.approx(lost["best_compute_interval_seconds"], rel=1e-3)
    assert interval.goodput_at_optimum_fraction == pytest.approx(lost["efficiency_at_best"], rel=1e-6)
    assert reference.overhead.rework_fraction == pytest.approx(1 / 5, rel=0.05)
    assert any("loses at least 19.6 %" in warning for warning in reference.warnings)


def test_goodput_at_the_interval_counts_the_period_from_start_to_start() -> None:
    lost = FACTS["lost_work"]
    period = 14_400 + 13.8e12 / 273e9
    report = report_with(checkpoint={"observed_bytes": "13.8 TB", "interval_seconds": period})
    assert report.interval.goodput_at_interval_fraction == pytest.approx(
        lost["efficiency_at_4h_compute_interval"], rel=1e-9
    )


def test_the_node_limit_alone_misses_the_observed_rate_and_says_so() -> None:
    case = FACTS["case_with_limits"]
    report = report_with(
        checkpoint={"observed_bytes": "13.8 TB", "observed_write_bytes_per_second": "273 GB/s"},
        storage={
            "profile": {
                "write_bytes_per_second": case["file_system_write_bytes_per_second"],
                "node_write_bytes_per_second": case["node_write_bytes_per_second"],
            }
        },
    )
    write = write_of(report)
    assert 13.8e12 / write.even_seconds == pytest.approx(case["expected_bytes_per_second"])
    assert write.even_seconds == pytest.approx(case["expected_seconds"])
    assert write.bottleneck == case["bottleneck"]
    assert write.predicted_over_observed == pytest.approx(512 / 273 / report.layout.largest_over_mean)
    assert any("does not explain this" in warning for warning in report.warnings)


def test_gpt3_on_1024_gpus_is_written_by_64_gpus_of_8_nodes() -> None:
    facts = published("vast_checkpoint_example")["gpt3"]
    report = report_with(
        model={"preset": "gpt3-175b"},
        parallelism={"tensor": 8, "pipeline": 8, "data": 16},
        cluster={"node": "dgx-a100", "num_gpus": 1024},
    )
    assert report.layout.num_nodes == facts["num_nodes"]
    assert report.layout.num_writers == facts["num_writers"]
    assert report.layout.num_writing_nodes == facts["num_writing_nodes"]
    assert report.checkpoint.num_files == facts["num_files"]


def test_without_storage_there_are_sizes_and_requirements_only() -> None:
    report = report_with(storage=None)
    assert report.write is None
    assert report.overhead.fraction is None
    assert report.restore.seconds is None
    assert report.restore.read_bytes == pytest.approx(6 * 13.8e12)
    assert report.required.write_bytes_per_second == pytest.approx(19.1666667e9)


def test_without_failures_goodput_is_unknown_and_a_warning_says_so() -> None:
    report = report_with(reliability=None)
    assert report.interval.goodput_at_interval_fraction is None
    assert report.overhead.rework_fraction is None
    assert any("No failure rate given" in warning for warning in report.warnings)


def test_every_default_that_took_effect_is_listed() -> None:
    report = answer(scenario_from({"model": {"preset": "gpt2"}}))
    assumed = {assumption.field: assumption.value for assumption in report.assumptions}
    assert assumed["training.framework"] == "megatron"
    assert assumed["training.precision"] == "bf16-mixed"
    assert assumed["training.optimizer"] == "adam"
    assert assumed["parallelism.tensor"] == assumed["parallelism.data"] == 1
    assert assumed["checkpoint.format"] == "torch-dist"
    assert assumed["checkpoint.mode"] == "sync"
    assert assumed["checkpoint.interval_seconds"] == 14_400
    assert assumed["cluster.node"] == "dgx-h100"


def test_what_was_given_is_no_assumption(reference: SizingReport) -> None:
    assumed = {assumption.field for assumption in reference.assumptions}
    assert not assumed & {
        "training.framework",
        "checkpoint.interval_seconds",
        "parallelism.tensor",
        "cluster.node",
    }


def test_a_save_ends_with_its_last_rank_where_nodes_limit() -> None:
    report = report_with(
        checkpoint={}, storage={"profile": {"node_write_bytes_per_second": "8 GB/s"}}, reliability=None
    )
    write, layout = write_of(report), report.layout
    hidden, cut_layer, whole_layer = 25_600, 12 * 25_600**2 + 7 * 25_600, 6 * 25_600
    first_stage = 2 * (cut_layer / 8 + whole_layer) + 51_200 * hidden / 8 + 2_048 * hidden
    assert layout.max_rank_bytes == 14 * first_stage
    assert layout.max_node_bytes == 8 * 14 * first_stage
    assert layout.mean_rank_bytes == pytest.approx(report.checkpoint.total_bytes / 512)
    assert layout.largest_over_mean == pytest.approx(layout.max_rank_bytes / layout.mean_rank_bytes)
    assert write.seconds == write.stall_seconds == pytest.approx(8 * 14 * first_stage / 8e9)
    assert write.even_seconds == pytest.approx(report.checkpoint.total_bytes / 64 / 8e9)
    assert any("The largest rank writes 1.11 x the mean, the fullest node 244" in each for each in report.warnings)


def test_the_data_rank_with_the_weights_decides_the_verdict_of_zero_1() -> None:
    """6,738,415,616 parameters on 4 nodes: each of 32 ranks writes its share of 12 B, rank 0 the weights of 2 B too."""
    parameters = 6_738_415_616
    document = {
        "model": {"preset": "llama-2-7b"},
        "training": {"framework": "deepspeed"},
        "parallelism": {"data": 32, "zero_stage": 1},
        "cluster": {"node": "dgx-h100"},
        "storage": {"profile": {"node_write_bytes_per_second": "2.5 GB/s"}},
        "targets": {"max_stall_seconds": 10},
    }
    report = answer(document)
    node_0 = 2 * parameters + 12 * parameters / 4
    assert report.layout.max_node_bytes == pytest.approx(node_0, rel=1e-6)
    assert write_of(report).stall_seconds == pytest.approx(node_0 / 2.5e9, rel=1e-6)
    assert write_of(report).even_seconds == pytest.approx(14 * parameters / 4 / 2.5e9, rel=1e-6)
    assert {check.target: check.met for check in report.targets}["max_stall_seconds"] is False
    assert report.required.write_per_node_bytes_per_second == pytest.approx(node_0 / 10, rel=1e-6)


def test_an_interval_shorter_than_the_write_never_advances() -> None:
    report = report_with(checkpoint={"interval_seconds": "40s", "observed_bytes": "13.8 TB"})
    assert report.overhead.fraction is not None
    assert report.overhead.fraction > 1
    assert report.interval.goodput_at_interval_fraction == 0
    assert any("training never advances" in warning for warning in report.warnings)


@pytest.mark.parametrize(
    ("targets", "met"),
    [
        ({"max_overhead_fraction": 0.0036}, True),
        ({"max_overhead_fraction": 0.0035}, False),
        ({"max_stall_seconds": "51 s"}, True),
        ({"max_stall_seconds": "50 s"}, False),
        ({"recovery_seconds": "83 s"}, True),
        ({"recovery_seconds": "82 s"}, False),
        ({"min_goodput_fraction": 0.80}, True),
        ({"min_goodput_fraction": 0.81}, False),
    ],
)
def test_targets_are_checked(targets: dict[str, Any], met: bool) -> None:
    report = report_with(targets=targets)
    name = next(iter(targets))
    assert {check.target: check.met for check in report.targets}[name] is met


@pytest.mark.parametrize("targets", [{"max_overhead_fraction": 0.001}, {"max_stall_seconds": "20 s"}])
def test_the_required_rate_meets_its_target_exactly(targets: dict[str, Any]) -> None:
    serial = {"files_per_second": 1000, "fixed_write_seconds": 1}
    first = report_with(targets=targets, storage={"profile": {"write_bytes_per_second": "1 GB/s"} | serial})
    rate = first.required.write_bytes_per_second
    again = report_with(targets=targets, storage={"profile": {"write_bytes_per_second": rate} | serial})
    allowed = 0.001 * 14_400 if "max_overhead_fraction" in targets else 20
    assert write_of(again).stall_seconds == pytest.approx(allowed, rel=1e-9)


def test_a_target_that_no_rate_can_meet_has_no_required_rate() -> None:
    profile = {"write_bytes_per_second": "1 TB/s", "fixed_write_seconds": 30}
    report = report_with(targets={"max_stall_seconds": "20 s"}, storage={"profile": profile})
    assert report.required.write_bytes_per_second is None
    (missed,) = [check for check in report.targets if check.met is False]
    assert missed.remedy == "no storage meets it at any interval: fixed alone takes 30.00 s"
    assert not any("not met at any bandwidth" in warning for warning in report.warnings), "the remedy says it"


def test_the_required_restore_rate_reads_in_the_recovery_time() -> None:
    report = report_with(targets={"recovery_seconds": "60 s"})
    assert report.required.restore_bytes_per_second == pytest.approx(82.8e12 / 60)


def test_capacity_holds_those_kept_and_the_one_being_written() -> None:
    report = report_with(retention={"keep_last": 3})
    assert report.capacity.capacity_bytes == 4 * 13_800_000_000_000
    assert report.recovery is not None
    assert report.recovery.saves_per_day < 6
    assert report.capacity.written_bytes_per_day == pytest.approx(report.recovery.saves_per_day * 13.8e12)


def test_a_layout_whose_state_exceeds_gpu_memory_is_said_not_to_run() -> None:
    report = report_with(parallelism={"tensor": 8, "pipeline": 8}, cluster={"node": "dgx-a100"})
    assert report.training.state_fits is False
    assert any("cannot run" in warning for warning in report.warnings)


def test_more_than_the_line_rate_of_a_node_is_warned_about() -> None:
    report = report_with(storage={"profile": {"write_bytes_per_second": "4 TB/s"}})
    assert any("more than the 50.00 GB/s of its storage network" in warning for warning in report.warnings)


def test_the_report_survives_its_own_json(reference: SizingReport) -> None:
    assert SizingReport.model_validate_json(reference.model_dump_json()) == reference


def test_more_writers_than_bytes_are_no_division_by_zero() -> None:
    report = report_with(checkpoint={"observed_bytes": 1})
    assert report.layout.mean_rank_bytes == 0
    assert report.layout.largest_over_mean >= 0


def test_a_layout_that_is_found_again_changes_no_figure_and_no_assumption() -> None:
    given: dict[str, Any] = {"model": {"preset": "llama-3.1-405b"}, "parallelism": {"tensor": 8, "data": 16}}
    variants: list[dict[str, Any]] = [
        given,
        given | {"training": {"precision": "bf16-mixed"}},
        given | {"checkpoint": {"interval_seconds": 600}},
        given | {"checkpoint": {"mode": "sync"}},
        given | {"checkpoint": {"format": "megatron"}},
        given | {"schema_version": 1},
        given | {"storage": {"profile": {"write_bytes_per_second": 1e9}}},
        given | {"cluster": {"node": "dgx-a100"}},
        given | {"parallelism": {"tensor": 8, "data": 16, "pipeline": 1}},
    ]
    found_again = [answer(scenario_from(variant)) for variant in variants * 2]
    for report, variant in zip(found_again, variants * 2, strict=True):
        _size_layout.cache_clear()
        assert report == answer(scenario_from(variant))
