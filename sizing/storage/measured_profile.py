"""From one benchmark run to a StorageProfile: what was measured, and nothing that was not."""

from __future__ import annotations

from collections.abc import Sequence

from sizing.errors import InvalidInput
from sizing.storage.measurement import BenchmarkResult, Measurement, Operation
from sizing.storage.profile import MeasuredOn, StorageProfile


def profile_of(result: BenchmarkResult) -> StorageProfile:
    """The best rates of a run, taken as those of the whole file system.

    One run cannot tell whether writer, node or file system was the limit, so its best rate is a lower
    bound of what the file system gives to more nodes. Unverified measurements, reads that may have come from the page
    cache, and workloads of a shape of their own do not count: a hot file that many read, or a save that waits for
    a deletion, has a rate that a plain one does not have.

    Raises InvalidInput where no write is left.
    """
    write = _best(result.measurements, "write")
    read = _best(result.measurements, "restore")
    if write is None:
        raise InvalidInput.of(
            "measurements",
            "must hold a verified write with nothing beside it",
            value=", ".join(sorted({m.operation for m in result.measurements})),
            remedy="run ckpt-bench run again and look at its warnings",
        )
    return StorageProfile(
        write_bytes_per_second=write.headline_bytes_per_second,
        read_bytes_per_second=read.headline_bytes_per_second if read else None,
        measured=MeasuredOn(
            run_id=result.run_id,
            engine=write.engine,
            num_nodes=write.num_nodes,
            num_ranks=write.num_ranks,
            warnings=(*result.warnings, *_cached(result.measurements)),
        ),
    )


def _best(measurements: Sequence[Measurement], operation: Operation) -> Measurement | None:
    of_operation = [m for m in measurements if m.operation == operation and m.shape is None]
    usable = [m for m in of_operation if m.verified and m.is_of_storage]
    return max(usable, key=lambda m: m.headline_bytes_per_second, default=None)


def _cached(measurements: Sequence[Measurement]) -> list[str]:
    """Why a restore that was measured gives no rate."""
    if any(m.operation == "restore" and not m.is_of_storage for m in measurements):
        return ["the restore may have read from the page cache, so it gives no read rate"]
    return []
