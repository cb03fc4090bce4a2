"""Weights in Hugging Face format beside the checkpoint: who writes them, how long, and what that costs the run."""

from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.report import SizingReport, answer
from sizing.run.export import Exported
from tests.sizing.run.scenarios import report

PARAMETERS = 1_008_038_758_400
WEIGHTS = 2 * PARAMETERS
WRITE, READ, NODES = 273e9, 1e12, 384
NETWORK = 8 * 200e9 / 8
"""Eight ports of 200 Gb/s of a DGX A100's compute network, in bytes per second."""


def exporting(written_by: str, every: int = 4, **blocks: Any) -> SizingReport:
    return report(checkpoint={"export": {"every": every, "written_by": written_by}}, **blocks)


def block(found: SizingReport) -> Exported:
    assert found.export is not None
    return found.export


def test_rank_0_gathers_and_writes_while_training_waits() -> None:
    rates = {"write_bytes_per_second": WRITE, "process_write_bytes_per_second": "100 GB/s"}
    found = exporting("rank-0", storage={"profile": rates})
    exported = block(found)
    assert exported.num_bytes == WEIGHTS
    assert exported.num_files == -(-WEIGHTS // 50_000_000_000)
    assert exported.gather_seconds == pytest.approx(WEIGHTS * (1 - 1 / NODES) / NETWORK)
    assert exported.write_seconds == pytest.approx(WEIGHTS / 100e9)
    assert exported.stall_seconds is not None
    assert exported.stall_seconds == exported.seconds
    plain = report().overhead.fraction
    assert plain is not None
    assert found.overhead.fraction == pytest.approx(plain + exported.stall_seconds / 4 / 14_400)
    assert exported.overhead_fraction == pytest.approx(exported.stall_seconds / 4 / 14_400)


def test_one_stream_is_as_fast_as_one_writer() -> None:
    profile = {"write_bytes_per_second": WRITE, "writer_write_bytes_per_second": "1 GB/s"}
    slow = block(exporting("rank-0", storage={"profile": profile}))
    assert slow.write_seconds == pytest.approx(WEIGHTS / 1e9)
    many = block(exporting("every-rank", storage={"profile": profile | {"read_bytes_per_second": READ}}))
    assert many.num_writers == 41
    assert many.write_seconds == pytest.approx(max(WEIGHTS / WRITE, WEIGHTS / 3072e9) + WEIGHTS / 41e9)


def test_every_rank_writes_shards_then_reads_and_writes_whole_tensors() -> None:
    exported = block(exporting("every-rank"))
    assert exported.gather_seconds == 0
    assert exported.write_seconds == pytest.approx(2 * WEIGHTS / WRITE)
    assert exported.read_seconds == pytest.approx(WEIGHTS / READ)


def test_a_job_afterwards_stalls_nothing() -> None:
    found = exporting("afterwards")
    assert block(found).stall_seconds == 0
    assert block(found).seconds == pytest.approx(WEIGHTS / READ + WEIGHTS / WRITE)
    assert found.overhead.fraction == report().overhead.fraction


def test_exports_take_capacity_beside_the_checkpoints() -> None:
    kept = report(checkpoint={"export": {"every": 1, "keep": 3}}).capacity
    assert kept.exported_bytes == 4 * WEIGHTS
    assert kept.capacity_bytes == report().capacity.capacity_bytes + 4 * WEIGHTS


def test_adapters_alone_are_exported_where_asked() -> None:
    """LoRA of rank 8 beside queries (4096 x 4096) and values (4096 x 1024) of 32 layers, in 2 bytes."""
    export = {"every": 1, "content": "adapters"}
    asked: dict[str, Any] = {"model": {"preset": "llama-3.1-8b"}, "checkpoint": {"export": export}}
    found = block(answer(asked | {"training": {"adapters": {"rank": 8}}}))
    assert found.num_bytes == 2 * 32 * 8 * ((4096 + 4096) + (4096 + 1024))
    with pytest.raises(InvalidInput, match="adapters alone are exported"):
        answer(asked)
    with pytest.raises(InvalidInput, match="remove content"):
        report(checkpoint={"export": export | {"format": "deepspeed-universal"}})


def test_shards_lie_beside_the_export_of_every_rank_while_it_is_written() -> None:
    found = exporting("every-rank", every=1)
    assert block(found).working_bytes == WEIGHTS
    assert found.capacity.exported_bytes == 3 * WEIGHTS
    assert block(exporting("afterwards", every=1)).working_bytes == 0


def test_a_disk_without_room_for_the_shards_of_an_export_is_warned_of() -> None:
    """Two checkpoints of 96.36 GB, two exports of 16.06 GB and the shards of one: 240.9 GB."""
    asked = {"model": {"preset": "llama-3.1-8b"}, "training": {"framework": "fsdp2"}, "parallelism": {"data": 8}}
    export = {"checkpoint": {"export": {"every": 1, "written_by": "every-rank"}}}
    fits = [report(asked | export | {"retention": {"disk_bytes": disk}}).capacity.fits_disk for disk in (240e9, 241e9)]
    assert fits == [False, True]


@pytest.mark.parametrize(
    ("written_by", "written", "read"), [("rank-0", 1, 0), ("every-rank", 2, 1), ("afterwards", 1, 1)]
)
def test_all_that_exports_write_wears_drives(written_by: str, written: int, read: int) -> None:
    found = exporting(written_by)
    assert (block(found).written_bytes, block(found).read_bytes) == (written * WEIGHTS, read * WEIGHTS)
    assert found.recovery is not None
    written_bytes = found.checkpoint.written_bytes + written * WEIGHTS / 4
    assert found.capacity.written_bytes_per_day == pytest.approx(found.recovery.saves_per_day * written_bytes)


def test_a_stall_target_counts_the_save_that_is_exported() -> None:
    found = exporting("rank-0", targets={"max_stall_seconds": 60})
    (check,) = [check for check in found.targets if check.target == "max_stall_seconds"]
    assert check.found == pytest.approx(13.8e12 / WRITE + (block(found).stall_seconds or 0))
    assert not check.met


def test_exports_lower_the_goodput_as_much_as_they_stall() -> None:
    plain, found = report().shares.useful_fraction, exporting("rank-0", every=1).shares.useful_fraction
    assert plain is not None
    assert found is not None
    stall = block(exporting("rank-0", every=1)).stall_seconds or 0
    assert plain - found == pytest.approx(plain * stall / 14_400, rel=0.01)


def test_without_a_read_rate_the_time_is_not_known_and_said() -> None:
    found = exporting("every-rank", storage={"profile": {"write_bytes_per_second": WRITE}})
    assert block(found).seconds is None
    assert any("No rate for checkpoint.export" in warning for warning in found.warnings)


@pytest.mark.parametrize("export", [{}, {"every": 0}, {"every": 1, "written_by": "rank-1"}, {"every": 1, "keep": 0}])
def test_what_makes_no_sense_is_refused(export: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"checkpoint\.export"):
        report(checkpoint={"export": export})
