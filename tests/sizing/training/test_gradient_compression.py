"""What compressed gradients send, keep and save, against PyTorch's hook on two ranks and laws."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing.errors import InvalidInput
from sizing.layout.formats import FORMATS, CheckpointFormat
from sizing.report import SizingReport, answer
from sizing.scenario import scenario_from
from sizing.sized_layout import manifest_of, saved_by_rank_of
from sizing.state.gradient_compression import METHODS, Exchange, GradientCompression
from tests.examples import examples

FP32 = Exchange(num_ranks=2, value_bytes=4)

SHAPES_OF_THE_HOOK = ((16, 6, 5, 5), (16,), (96, 256), (96,), (96,), (96,), (3, 96), (3,))
"""Of `powersgd_rank.model`, in the order of its parameters."""


def two_ranks(tmp_path: Path, *, approximation_rank: int, feeds_back: bool) -> list[dict[str, Any]]:
    """What the hook keeps on each of two ranks."""
    module = "tests.sizing.training.powersgd_rank"
    settings_of_both = [str(tmp_path / "meeting"), str(approximation_rank), "yes" if feeds_back else "no"]
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", module, str(rank), "2", *settings_of_both],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    printed = [rank.communicate(timeout=300) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], printed
    return [json.loads(out.splitlines()[-1]) for out, _ in printed]


def check_hook(tmp_path: Path, *, approximation_rank: int, feeds_back: bool) -> list[dict[str, Any]]:
    found = two_ranks(tmp_path, approximation_rank=approximation_rank, feeds_back=feeds_back)
    given = GradientCompression(method="powersgd", rank=approximation_rank, error_feedback=feeds_back)
    hook, shapes = METHODS["powersgd"], SHAPES_OF_THE_HOOK
    for rank in found:
        assert sum(rank["bytes"]) == sum(hook.kept_bytes(shape, given, FP32) for shape in shapes)
        assert 4 * rank["sent"] == sum(hook.sent_bytes(shape, given, FP32) for shape in shapes)
    return found


@pytest.mark.long
def test_the_hook_of_pytorch_keeps_and_sends_what_is_counted_and_only_errors_differ(tmp_path: Path) -> None:
    first, second = check_hook(tmp_path, approximation_rank=2, feeds_back=True)
    assert first["digests"][0] != second["digests"][0]
    assert first["digests"][1:] == second["digests"][1:]
    assert first["bytes"][0] == 4 * sum(map(math.prod, SHAPES_OF_THE_HOOK))


@pytest.mark.long
@pytest.mark.parametrize(("approximation_rank", "feeds_back"), [(1, True), (4, True), (40, True), (2, False)])
def test_the_hook_keeps_what_is_counted_at_other_ranks(
    approximation_rank: int, feeds_back: bool, tmp_path: Path
) -> None:
    check_hook(tmp_path, approximation_rank=approximation_rank, feeds_back=feeds_back)


@pytest.mark.parametrize(
    ("asked", "shape", "sent"),
    [
        ({"method": "top-k"}, (1000, 1000), 10_000 * 8),
        ({"method": "top-k", "density": 0.5}, (3,), 8),
        ({"method": "qsgd"}, (1024, 1024), 2**19 + 4 * 2048),
        ({"method": "powersgd", "rank": 4}, (1000, 500), 4 * 4 * 1500),
        ({"method": "powersgd"}, (1000,), 4000),
        ({"method": "powersgd"}, (1, 1000), 4000),
        ({"method": "1-bit-adam"}, (16, 64), 1024 / 8 * 1.5 + 8),
    ],
    ids=str,
)
def test_a_message_has_what_its_paper_says(asked: dict[str, Any], shape: tuple[int, ...], sent: float) -> None:
    given = GradientCompression(**asked)
    assert METHODS[given.method].sent_bytes(shape, given, FP32) == sent


@pytest.mark.parametrize(
    ("num_ranks", "kept"),
    [
        (4, [12_288 + 3072, 128 + 32, 768 + 192]),
        (6, [12_672 + 2112, 576 + 96, 1152 + 192]),
    ],
)
def test_one_bit_adam_keeps_what_that_of_deepspeed_kept(num_ranks: int, kept: list[int]) -> None:
    """Worker and server errors of OnebitAdam of DeepSpeed 0.16.9, torch 2.13, after 4 steps with freeze_step 1, its
    exchange replaced: recorded once, as later versions have no such optimizer."""
    given, exchange = GradientCompression(method="1-bit-adam"), Exchange(num_ranks, value_bytes=4)
    shapes = ((48, 64), (7,), (3, 5, 11))
    assert [METHODS["1-bit-adam"].kept_bytes(shape, given, exchange) for shape in shapes] == kept


def test_every_method_says_its_source() -> None:
    assert all(method.source and name == method.name for name, method in METHODS.items())


ONE_BIT: dict[str, Any] = {"method": "1-bit-adam"}


def asked(compression: dict[str, Any] | None, **blocks: Any) -> SizingReport:
    """GPT-2 medium with DeepSpeed on 4 replicas."""
    training: dict[str, Any] = {"framework": "deepspeed", **blocks.pop("training", {})}
    if compression:
        training["gradient_compression"] = compression
    scenario: dict[str, Any] = {
        "model": {"preset": "gpt2-medium"},
        "training": training,
        "parallelism": {"data": 4, "zero_stage": 0},
        "storage": {"profile": {"write_bytes_per_second": "10 GB/s", "read_bytes_per_second": "10 GB/s"}},
    }
    return answer(scenario | blocks)


def test_errors_are_kept_on_the_gpu_and_saved_by_every_rank() -> None:
    """1-bit Adam keeps 4 bytes of each parameter as a worker, and 4 of its quarter; padding takes less than 1 %."""
    plain, compressed = asked(None), asked(ONE_BIT)
    found = compressed.gradient_compression
    assert found is not None
    num_parameters = plain.model.num_parameters
    assert found.kept_bytes == pytest.approx(5 * num_parameters, rel=0.01)
    assert found.kept_bytes >= 5 * num_parameters
    assert compressed.training.gpu_state_bytes == plain.training.gpu_state_bytes + found.kept_bytes
    assert found.saved_bytes == 4 * found.kept_bytes
    assert compressed.checkpoint.total_bytes == plain.checkpoint.total_bytes + found.saved_bytes
    assert (plain.layout.num_writers, compressed.layout.num_writers) == (1, 4)
    assert compressed.checkpoint.num_files == plain.checkpoint.num_files + 4
    assert compressed.layout.max_rank_bytes == plain.layout.max_rank_bytes + found.kept_bytes


def test_each_rank_reads_its_own_errors_back_once() -> None:
    plain, compressed = asked(None), asked(ONE_BIT)
    assert compressed.gradient_compression is not None
    assert compressed.restore.read_bytes == plain.restore.read_bytes + compressed.gradient_compression.saved_bytes


def test_without_saved_errors_the_checkpoint_is_as_before() -> None:
    plain, compressed = asked(None), asked(ONE_BIT | {"saves_errors": False})
    assert compressed.checkpoint == plain.checkpoint
    assert compressed.training.gpu_state_bytes > plain.training.gpu_state_bytes


def test_a_method_that_keeps_nothing_saves_nothing() -> None:
    plain, compressed = asked(None), asked({"method": "qsgd"})
    assert (compressed.checkpoint, compressed.layout) == (plain.checkpoint, plain.layout)
    assert compressed.training == plain.training


WITH_WHOLE_OPTIMIZERS = [
    (framework, saved_as)
    for saved_as in FORMATS.values()
    for framework in saved_as.frameworks
    if not saved_as.needs_distributed_optimizer and framework != "maxtext"
]


@pytest.mark.parametrize(
    ("framework", "saved_as"),
    WITH_WHOLE_OPTIMIZERS,
    ids=[f"{name}-{each.name}" for name, each in WITH_WHOLE_OPTIMIZERS],
)
def test_every_format_takes_errors_beside_its_files(framework: str, saved_as: CheckpointFormat) -> None:
    known = {"tensor": 2, "pipeline": 2, "zero_stage": 0, "shard_group": 1}
    document: dict[str, Any] = {
        "model": {"preset": "gpt2-medium"},
        "training": {"framework": framework, "precision": "fp32"},
        "parallelism": {"data": 4} | {name: value for name, value in known.items() if name in saved_as.takes},
        "checkpoint": {"format": saved_as.name},
    }
    compressing = document | {"training": document["training"] | {"gradient_compression": {"method": "top-k"}}}
    plain, report = answer(document), answer(compressing)
    assert report.gradient_compression is not None
    assert report.layout.num_writers == report.layout.num_gpus
    saved = report.gradient_compression.saved_bytes
    assert report.checkpoint.total_bytes == plain.checkpoint.total_bytes + saved
    rows = list(manifest_of(scenario_from(compressing)))
    errors = [row for row in rows if row.file.startswith("gradient_errors_")]
    assert len({row.file for row in errors}) == len(errors) == report.layout.num_gpus
    assert sum(row.tensor_bytes for row in errors) == saved
    assert sum(row.tensor_bytes for row in rows) == report.checkpoint.total_bytes
    by_rank = saved_by_rank_of(scenario_from(compressing))
    tensors = [tensor for rank in by_rank.ranks for tensor in by_rank.tensors(rank)]
    assert sum(tensor.num_bytes for tensor in tensors if tensor.part == "errors") == saved


def test_a_format_without_a_place_for_errors_says_so() -> None:
    """Orbax's processes write together what GPUs hold, and MaxText has no hook for gradients."""
    training = {"framework": "maxtext", "precision": "fp32"}
    with pytest.raises(InvalidInput, match="orbax has no place for what each rank keeps"):
        asked({"method": "top-k"}, training=training, parallelism={"data": 4, "shard_group": 1})


@examples(12)
@given(data=st.integers(1, 64), method=st.sampled_from(sorted(METHODS)), feeds_back=st.none() | st.booleans())
def test_what_is_saved_grows_with_the_replicas_and_the_rest_does_not(
    data: int, method: str, feeds_back: bool | None
) -> None:
    compression = {"method": method, "error_feedback": feeds_back}
    degrees = {"data": data, "zero_stage": 0}
    plain, report = asked(None, parallelism=degrees), asked(compression, parallelism=degrees)
    found = report.gradient_compression
    assert found is not None
    assert found.saved_bytes == data * found.kept_bytes
    assert report.checkpoint.total_bytes - found.saved_bytes == plain.checkpoint.total_bytes
    assert 0 < found.sent_fraction < 1
    if feeds_back is False and method != "powersgd":
        assert found.kept_bytes == 0


@pytest.mark.parametrize(
    ("compression", "blocks", "said"),
    [
        (ONE_BIT, {"parallelism": {"data": 4, "zero_stage": 1}}, "needs ranks that each have whole weights"),
        (ONE_BIT, {"training": {"optimizer": "lion"}}, "1-bit-adam must go with optimizer adam or adamw"),
        ({"method": "powersgd"}, {"model": {"num_parameters": 10**9}}, "powersgd needs the shapes of tensors"),
        ({"method": "top-k", "rank": 4}, {}, "gradient_compression has rank, which counts with powersgd alone"),
        ({"method": "zip"}, {}, "training.gradient_compression.method"),
        (
            ONE_BIT,
            {"checkpoint": {"restore_parallelism": {"data": 2, "zero_stage": 0}}},
            "checkpoint.restore_parallelism must equal parallelism",
        ),
    ],
    ids=str,
)
def test_what_does_not_go_together_is_refused(compression: dict[str, Any], blocks: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        asked(compression, **blocks)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("given", "seconds_of_whole"),
    [
        ({"method": "top-k", "density": 0.01}, 8 * 0.01 * (4 + 4) / (2 * 4)),
        ({"method": "qsgd", "bits": 8, "bucket_size": 1 << 20}, 8 * 1 / (2 * 4)),
        (ONE_BIT, 2 / 8 / (2 * 4)),
    ],
)
def test_what_is_exchanged_is_gathered_of_all_ranks_or_summed_on_the_way(
    given: dict[str, Any], seconds_of_whole: float
) -> None:
    """Of 8 ranks and fp32 gradients, held against an all-reduce of 2 x 4 bytes a value; thin matrices: as they are."""
    compression, exchange, shape = GradientCompression(**given), Exchange(8, 4), (4096, 4096)
    moved = METHODS[compression.method].exchanged_bytes(shape, compression, exchange)
    assert moved / (2 * 4 * 4096**2) == pytest.approx(seconds_of_whole, rel=1e-4)
