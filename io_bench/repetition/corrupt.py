"""What the ranks have found to be other than it was written, known to rank 0."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from io_bench.ranks.writers import Writers
from io_bench.repetition.part import Evidence, Part
from sizing.storage.corruption import Corruption


def found_corrupt(
    evidence: Evidence, part: Part, *, names: Sequence[str], repetition: int, writers: Writers
) -> tuple[Corruption, ...]:
    """On rank 0 what any rank has found wrong in the files of these names; each rank keeps those of its own.

    Raises as ProcessGroup.
    """
    own = [] if evidence.is_sound else [dataclasses.asdict(each) for each in evidence.differences] or [{}]
    rows = writers.gathered([names, evidence.files, evidence.problem, own], doing="verifying")
    part.keep(writers.group.told([name for of, _, _, wrong in rows if wrong for name in of], doing="verifying"))
    return tuple(
        Corruption(
            repetition=repetition,
            rank=writers.ranks[index],
            title=writers.title(index),
            files=files,
            problem=problem,
            **each,
        )
        for index, (_, files, problem, wrong) in enumerate(rows)
        for each in wrong
    )
