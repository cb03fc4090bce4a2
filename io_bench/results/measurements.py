"""From samples to measurements: one definition of every figure in the result, and the evidence for it.

Pages in the page cache show whether a figure is of the storage. Command lines of fio and elbencho make the same load,
to compare with.
"""

from __future__ import annotations

import dataclasses
import math
import shlex
import statistics
from collections.abc import Sequence
from typing import Any

from io_bench.engines import DEFAULT_BLOCK_BYTES, IoReport
from io_bench.measure.repeating import Samples
from io_bench.measure.sample import Sample
from io_bench.measure.spread import drift_fraction, median_interval, percentile, straggler_ratio, stragglers
from io_bench.measure.stopwatch import OperationSample
from io_bench.results.limits import limits
from io_bench.results.series import Series, late_repetitions, rates_over_time, request_latency
from io_bench.target.direct_io import ALIGNMENT_BYTES
from io_bench.target.spread import MultiTarget
from io_bench.target.target import Target
from sizing.storage.measurement import CachePolicy, Measurement, Operation
from sizing.storage.run_events import RateChange


def cache_policy(series: Series) -> CachePolicy:
    """Tell how the page caches of the nodes were kept out of the writes or the restores.

    A write is direct where it left no page in memory: some file systems take O_DIRECT and go through the page cache.
    """
    has_pages = any(rank.resident_pages for each in series.repetitions for rank in each.ranks)
    if series.is_write:
        return "o-direct" if series.is_direct and not has_pages else "buffered-fsync"
    if has_pages or is_read_from_shared_pages(series):
        return "cached"
    if series.plan.restores_from_other_node:
        return "other-node"
    return "o-direct" if series.is_direct else "fadvise-dontneed"


def is_read_from_shared_pages(series: Series) -> bool:
    """Whether ranks of one node restored the same file through the page cache."""
    plan = series.plan
    if series.is_write or plan.readers is plan.writers or plan.transfer or series.is_direct:
        return False
    nodes = series.ranks.nodes
    read = [
        (nodes[index], source)
        for index, num_bytes in enumerate(series.rank_bytes)
        if num_bytes
        for source in plan.sources(index)
    ]
    return len(set(read)) < len(read)


def resident_pages(series: Series) -> int | None:
    """Pages in memory after a write or before a restore, max over the repetitions.

    None of a buffered write, which leaves its pages in memory by design.
    """
    if series.is_write and not any(report.is_direct for ranks in series.reports for report in ranks):
        return None
    return max(sum(rank.resident_pages for rank in each.ranks) for each in series.repetitions)


_MAX_REQUEST_BYTES = 0x7FFFF000
"""Linux moves no more in one call. Source: write(2), NOTES."""


def equivalent_commands(
    operation: Operation,
    *,
    directory: str,
    num_ranks: int,
    bytes_per_rank: int,
    files_per_rank: int,
    requests_per_rank: int,
    threads_per_rank: int,
    is_direct: bool,
) -> dict[str, str]:
    """Command lines of fio and elbencho for one node: the same files, bytes, requests and requests in flight.

    Both tools want files and blocks of equal size: blocks are as many as the requests, and a file is a whole number of
    them. Threads that share a file are fio's depth with O_DIRECT, and else one, as a buffered write locks the file;
    threads with files of their own are jobs. fio makes each file durable before the next; elbencho has no fsync of a
    file, and makes all durable at the end. fio fills its buffers anew for each write, as the payload is unique; reads
    want the files that a write has left.
    Source: fio 3.33, HOWTO; elbencho 3.1, --help-multi and --help-all.

    >>> lines = equivalent_commands("write", directory="/mnt/x", num_ranks=2, bytes_per_rank=2**30, files_per_rank=1,
    ...     requests_per_rank=128, threads_per_rank=4, is_direct=True)
    >>> lines["elbencho"].replace("elbencho ", "", 1)
    '--write --dirs 0 --files 1 --threads 2 --size 1073741824 --block 8388608 --iodepth 4 --direct --sync /mnt/x'
    """
    jobs_per_rank = min(threads_per_rank, files_per_rank)
    num_files = round(files_per_rank / jobs_per_rank)
    file_bytes = bytes_per_rank / (jobs_per_rank * num_files)
    num_blocks = max(1, round(requests_per_rank / files_per_rank), math.ceil(file_bytes / _MAX_REQUEST_BYTES))
    unit = ALIGNMENT_BYTES if is_direct else 1
    block = max(1, math.ceil(file_bytes / (num_blocks * unit))) * unit
    size, num_jobs, place = num_blocks * block, num_ranks * jobs_per_rank, shlex.quote(directory)
    depth = threads_per_rank // jobs_per_rank if is_direct else 1
    if operation == "write":
        # fio would take space for the files, as the engine of O_DIRECT alone does.
        options = f"write --refill_buffers --fallocate={'native' if is_direct else 'none'} --fsync_on_close=1"
        tool_options = f"{'--direct ' if is_direct else ''}--sync"
    else:
        options, tool_options = "read --invalidate=1", "--direct" if is_direct else "--dropcache"
    engine = f"--ioengine={'libaio' if is_direct else 'psync'} --direct={int(is_direct)} --iodepth={depth}"
    return {
        "fio": (
            f"fio --name=ckpt --directory={place} --rw={options} {engine} --bs={block} "
            f"--size={num_files * size} --filesize={size} --nrfiles={num_files} --openfiles=1 --create_on_open=1 "
            f"--file_service_type=sequential --numjobs={num_jobs} --group_reporting"
        ),
        "elbencho": (
            f"elbencho --{operation if operation == 'write' else 'read'} --dirs 0 --files {num_files} "
            f"--threads {num_jobs} --size {size} --block {block} --iodepth {depth} {tool_options} {place}"
        ),
    }


_SHOWN_DIGITS = 6
"""Digits of the seconds of each rank, of which there are many: clocks of nodes agree less well than to a
microsecond."""


def measurements_of(samples: Samples, target: Target) -> list[Measurement]:
    """Make the write and the restore measurement of verified samples, with an entry for each repetition."""
    return [_measurement(Series(samples, operation), target) for operation in ("write", "restore")]


def notices_of(samples: Sequence[Sample]) -> list[str]:
    """Notices of the engine on any rank in any repetition, each once."""
    reports = [rank.report for sample in samples for each in (sample.write, sample.restore) for rank in each.ranks]
    return list(dict.fromkeys(notice for report in reports for notice in report.notices))


def _measurement(series: Series, target: Target) -> Measurement:
    plan, samples, rank_bytes, rank_seconds = series.plan, series.samples, series.rank_bytes, series.rank_seconds
    engine_plan, transfer = series.engine_plans[0], plan.transfer
    steadiness = series.steadiness
    # An object store has no such command, and none spreads ranks over directories by their number.
    has_commands = transfer is None and not isinstance(target, MultiTarget)
    return Measurement(
        engine=plan.configuration.engine,
        operation=series.operation,
        num_nodes=series.ranks.num_nodes,
        num_ranks=len(rank_bytes),
        bytes_per_rank=round(statistics.fmean(rank_bytes)),
        total_bytes=sum(rank_bytes),
        rank_bytes=list(rank_bytes),
        payload_bytes_per_rank=plan.configuration.bytes_per_rank,
        num_files=sum(len(each.files) for each in series.engine_plans),
        block_bytes=transfer.part_bytes if transfer else engine_plan.block_bytes,
        threads_per_rank=transfer.num_parallel if transfer else engine_plan.num_threads,
        seconds=series.seconds,
        bytes_per_second=series.bytes_per_second,
        first_done_seconds=[min(ranks) for ranks in rank_seconds],
        rank_seconds=[[round(each, _SHOWN_DIGITS) for each in ranks] for ranks in rank_seconds],
        cache_policy=target.cache_policy or cache_policy(series),
        verified=not any(sample.corruption for sample in samples.kept),
        warm_up_seconds=samples.warm_up.of(series.operation).seconds,
        start_spread_seconds=[each.start_spread_seconds for each in series.repetitions],
        clock_error_seconds=max(rank.clock_error_seconds for each in series.repetitions for rank in each.ranks),
        phase_seconds=_phase_seconds(series.reports),
        snapshot_seconds=samples.snapshot_seconds if series.is_write else None,
        stall_seconds=_median_of_slowest(series.reports, "stall_seconds"),
        drain_seconds=_median_of_slowest(series.reports, "drain_seconds"),
        **_spread(series),
        request_latency=request_latency(series),
        late_repetitions=late_repetitions(series),
        rate_changes=[RateChange(**dataclasses.asdict(change)) for change in steadiness.changes],
        sustained_bytes_per_second=steadiness.sustained_bytes_per_second,
        is_steady=steadiness.is_steady,
        rates_over_time=rates_over_time(series),
        **limits(series),
        resident_pages=resident_pages(series),
        counted_bytes=_counted_bytes(series.repetitions),
        equivalent_commands=_equivalent_commands(series, target) if has_commands else None,
    )


def _spread(series: Series) -> dict[str, Any]:
    """Spread of the times over repetitions and ranks."""
    seconds, rank_seconds, total_bytes = series.seconds, series.rank_seconds, sum(series.rank_bytes)
    of_all = [each for ranks in rank_seconds for each in ranks]
    low, high = median_interval(seconds)
    return {
        "rate_interval_bytes_per_second": (total_bytes / high, total_bytes / low),
        "drift_fraction": drift_fraction(seconds),
        "p50_rank_seconds": percentile(of_all, 50),
        "p95_rank_seconds": percentile(of_all, 95),
        "straggler_ratio": straggler_ratio(rank_seconds),
        "stragglers": [series.ranks.title(index) for index in stragglers(rank_seconds)],
    }


def _equivalent_commands(series: Series, target: Target) -> dict[str, str]:
    """Command lines of fio and elbencho for one node, with the mean of the ranks' bytes.

    A library that chooses its requests writes and reads a tensor in one.
    """
    engine_plan, own = series.engine_plans[0], series.plan.own
    bytes_per_rank = round(statistics.fmean(series.rank_bytes))
    requests_per_rank = -(-bytes_per_rank // (engine_plan.block_bytes or DEFAULT_BLOCK_BYTES))
    if own is not None and engine_plan.block_bytes is None:
        requests_per_rank = own.inventory.num_tensors
    return equivalent_commands(
        series.operation,
        directory=target.title,
        num_ranks=-(-len(series.rank_bytes) // series.ranks.num_nodes),
        bytes_per_rank=bytes_per_rank,
        files_per_rank=len(engine_plan.files) - len(engine_plan.index_files),
        requests_per_rank=requests_per_rank,
        threads_per_rank=engine_plan.num_threads,
        is_direct=series.is_direct,
    )


def _median_of_slowest(reports: Sequence[Sequence[IoReport]], field: str) -> float | None:
    """Median over the repetitions of a field's largest value of any rank; None where no rank has one."""
    of_repetition = [[getattr(report, field) for report in ranks] for ranks in reports]
    largest = [max(values) for ranks in of_repetition if (values := [value for value in ranks if value is not None])]
    return statistics.median(largest) if largest else None


def _phase_seconds(reports: Sequence[Sequence[IoReport]]) -> dict[str, float]:
    names = dict.fromkeys(name for ranks in reports for report in ranks for name in report.phase_seconds)
    return {
        name: statistics.median(max(report.phase_seconds.get(name, 0.0) for report in ranks) for ranks in reports)
        for name in names
    }


def _counted_bytes(repetitions: Sequence[OperationSample]) -> dict[str, int]:
    """Bytes of each counter: the sum over ranks and nodes, the median over the repetitions."""
    counted = [[rank.counted_bytes for rank in each.ranks] for each in repetitions]
    names = sorted({name for ranks in counted for of_rank in ranks for name in of_rank})
    return {
        name: round(statistics.median(sum(each.get(name, 0) for each in ranks) for ranks in counted)) for name in names
    }
