"""A universal checkpoint of DeepSpeed: its files and bytes are those of real conversions, and another job makes it."""

from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.layout.containers import CONTAINERS, container_bytes
from sizing.report import SizingReport, answer
from sizing.run.export import Exported
from sizing.scenario import scenario_from

TINY = {
    "family": "llama",
    "hidden_size": 256,
    "num_layers": 4,
    "num_attention_heads": 8,
    "num_kv_heads": 4,
    "ffn_hidden_size": 704,
    "vocab_size": 8000,
    "tied_embeddings": False,
}
PARAMETERS = 7_047_424


def converted(
    model: dict[str, Any] | None = None, *, export: dict[str, Any] | None = None, **blocks: Any
) -> SizingReport:
    written = {"every": 1, "format": "DeepSpeed universal"} | (export or {})
    document = {
        "model": model or {"architecture": TINY},
        "training": {"framework": "deepspeed"},
        "parallelism": {"data": 2},
        "checkpoint": {"export": written},
    }
    return answer(scenario_from(document | blocks))


def block(found: SizingReport) -> Exported:
    assert found.export is not None
    return found.export


@pytest.mark.parametrize(("zero_stage", "num_files", "real_bytes"), [(1, 158, 98_926_719), (3, 120, 127_077_932)])
def test_files_and_bytes_are_those_of_a_real_conversion(zero_stage: int, num_files: int, real_bytes: int) -> None:
    """ds_to_universal of DeepSpeed 0.19.8, of a save on 2 ranks in bf16; ZeRO 3 keeps the share of rank 0 once more."""
    made = block(converted(parallelism={"data": 2, "zero_stage": zero_stage}))
    headers = container_bytes(CONTAINERS["torch-zip"], num_files=num_files, num_tensors=num_files)
    assert made.num_files == num_files
    assert made.num_bytes + headers == pytest.approx(real_bytes, rel=0.001)
    assert made.working_bytes == 12 * PARAMETERS


def test_a_pipeline_copies_no_weights_and_frozen_tensors_have_theirs_alone() -> None:
    staged = block(converted(parallelism={"data": 2, "pipeline": 2}))
    assert staged.num_bytes == 12 * PARAMETERS
    frozen = block(converted(training={"framework": "deepspeed", "frozen": ["embedding"]}))
    assert block(converted()).num_bytes - frozen.num_bytes == 8 * 8000 * 256


def test_the_second_name_of_tied_weights_has_a_file_of_its_own() -> None:
    tied, whole = ({"architecture": TINY | {"tied_embeddings": is_tied}} for is_tied in (True, False))
    once, twice = block(converted(tied)), block(converted(whole))
    assert twice.num_files - once.num_files == 3
    assert twice.num_bytes - once.num_bytes == (8 + 2) * 8000 * 256


def test_another_job_reads_and_writes_the_state_twice_while_training_goes_on() -> None:
    profile = {"write_bytes_per_second": "1 GB/s", "read_bytes_per_second": "2 GB/s"}
    made = block(converted(storage={"profile": profile}))
    copied = 2 * PARAMETERS
    assert made.write_seconds == pytest.approx((24 * PARAMETERS + copied) / 1e9)
    assert made.read_seconds == pytest.approx((24 * PARAMETERS + copied) / 2e9)
    assert made.stall_seconds == 0
    slow = profile | {"writer_write_bytes_per_second": "10 MB/s"}
    alone = block(converted(storage={"profile": slow}))
    assert alone.write_seconds == pytest.approx(12 * PARAMETERS / 40e6 + (12 * PARAMETERS + copied) / 20e6)


def test_exports_that_are_kept_and_what_one_works_on_need_capacity() -> None:
    found = converted(export={"keep": 2})
    assert found.capacity.exported_bytes == 3 * block(found).num_bytes + 12 * PARAMETERS


@pytest.mark.parametrize(
    ("blocks", "sentence"),
    [
        ({"training": {}}, "must be of DeepSpeed's checkpoints"),
        ({"training": {"framework": "deepspeed", "optimizer": "sgd"}}, "must be of Adam's moments"),
        ({"parallelism": {"zero_stage": 0}}, "must be of an optimizer that ZeRO divides"),
        (
            {"model": {"preset": "mixtral-8x7b"}, "parallelism": {"data": 2, "expert": 2}},
            "must be of experts that stand on one rank",
        ),
        ({"export": {"written_by": "rank-0"}}, "has format deepspeed-universal and written_by rank-0"),
        ({"export": {"dtype": "bf16"}}, "has format deepspeed-universal and dtype"),
    ],
)
def test_what_cannot_be_converted_is_refused(blocks: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        converted(**blocks)
