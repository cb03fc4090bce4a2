"""How the page cache was kept out of a figure, as the pages that were found in it prove."""

from __future__ import annotations

from collections.abc import Sequence

from io_bench.engines import IoReport
from io_bench.repetition.repeating import Samples
from io_bench.repetition.sample import Sample
from sizing.storage.measurement import CachePolicy, Operation


def cache_policy(samples: Samples, operation: Operation) -> CachePolicy:
    """How the cache of the nodes was kept out of the writes or the restores."""
    return _write_cache_policy(samples.kept) if operation == "write" else _restore_cache_policy(samples)


def resident_pages(samples: Sequence[Sample], operation: Operation) -> int | None:
    """Pages in memory after a write or before a restore, max over the repetitions.

    None of a buffered write, which leaves its pages in memory by design.
    """
    if operation == "restore":
        return max(sum(sample.resident_pages) for sample in samples)
    if not any(report.is_direct for sample in samples for report in sample.write_reports):
        return None
    return max(sum(sample.written_pages) for sample in samples)


def _write_cache_policy(samples: Sequence[Sample]) -> CachePolicy:
    """Direct is what left no page in memory: some file systems take O_DIRECT and go through the page cache."""
    left_pages = any(pages for sample in samples for pages in sample.written_pages)
    is_proven = is_direct([sample.write_reports for sample in samples]) and not left_pages
    return "o-direct" if is_proven else "buffered-fsync"


def _restore_cache_policy(samples: Samples) -> CachePolicy:
    if any(pages for sample in samples.kept for pages in sample.resident_pages):
        return "cached"
    if samples.plan.restores_from_other_node:
        return "other-node"
    asked = is_direct([sample.restore_reports for sample in samples.kept])
    return "o-direct" if asked else "fadvise-dontneed"


def is_direct(reports: Sequence[Sequence[IoReport]]) -> bool:
    """Whether every rank in every repetition asked to bypass the page cache, and was allowed to."""
    return all(report.is_direct for ranks in reports for report in ranks)
