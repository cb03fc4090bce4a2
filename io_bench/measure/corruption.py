"""Corruption: data that came back with other bytes. Rank 0 gathers it from all ranks, and the run ends with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from io_bench.errors import RunFailed
from io_bench.ranks.process_group import ProcessGroup, Writers
from sizing.storage.run_events import Corruption

if TYPE_CHECKING:
    from io_bench.measure.evidence import Evidence
    from io_bench.measure.rank_roles import RankRole


def gather_corruption(
    evidence: Evidence, role: RankRole, *, names: Sequence[str], repetition: int, writers: Writers
) -> tuple[Corruption, ...]:
    """Gather on rank 0 the corruption that ranks have found in the files of these names. Each rank keeps its own files.

    Raises as ProcessGroup.
    """
    rows = writers.gather({} if evidence.is_sound else {"names": names} | asdict(evidence), doing="verifying")
    role.keep(writers.group.broadcast([name for row in rows if row for name in row["names"]], doing="verifying"))
    return tuple(
        Corruption(
            repetition=repetition,
            rank=writers.ranks[index],
            title=writers.title(index),
            files=row["files"],
            problem=row["problem"],
            **difference,
        )
        for index, row in enumerate(rows)
        if row
        for difference in row["differences"] or [{}]
    )


def raise_where_corrupt(corruption: Sequence[Corruption] | None, group: ProcessGroup) -> None:
    """Raise RunFailed on all ranks alike where rank 0 knows of corruption. The result must be on disk before."""
    sentence = ""
    if corruption:
        more = f" (And {len(corruption) - 1} similar in the result.)" if len(corruption) > 1 else ""
        sentence = f"{corruption[0].sentence}{more}"
    sentence = group.broadcast(sentence, doing="verifying")
    if sentence:
        raise RunFailed(sentence)
