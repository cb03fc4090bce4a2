"""From a LayoutsRequest to the layouts that fit, ranked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from sizing.errors import InvalidInput
from sizing.explore.layouts.layouts_report import LayoutsReport, MinMemory
from sizing.explore.layouts.layouts_request import MAX_HEADROOM_FRACTION, LayoutsRequest, layouts_request_from
from sizing.explore.layouts.objectives import ranking
from sizing.explore.layouts.search import Search, Tally
from sizing.layout.degrees import SEARCHED_DEGREES, degrees_text
from sizing.training.activations import uncounted_activations
from sizing.units import decimal_bytes_text

Progress = Callable[[float], None]


def find_layouts(document: object, *, progress: Progress | None = None) -> LayoutsReport:
    """The LayoutsReport of a parsed document: a LayoutsRequest, or a scenario alone.

    Raises InvalidInput where a field breaks a rule, is missing for the search, or there are more than 5,000 candidates.
    """
    return layouts_of(layouts_request_from(document), progress=progress)


def layouts_of(request: LayoutsRequest, *, progress: Progress | None = None) -> LayoutsReport:
    """The LayoutsReport of a LayoutsRequest.

    Raises InvalidInput as `find_layouts`.
    """
    try:
        search = Search(request)
    except InvalidInput as error:
        raise error.within("scenario") from None
    candidates = search.candidates()
    tally = Tally()
    for done, degrees in enumerate(candidates, start=1):
        search.look_at(degrees, tally)
        if progress is not None:
            progress(done / len(candidates))
    ranked = sorted(tally.fitting, key=ranking(request.objective))
    return LayoutsReport(
        objective=request.objective,
        num_gpus=search.num_gpus,
        num_nodes=-(-search.num_gpus // search.question.node.spec.gpus_per_node),
        node=search.question.node.name,
        gpu_memory_bytes=search.gpu_memory_bytes,
        room_bytes=search.room_bytes,
        num_candidates=len(candidates),
        num_refused=tally.num_refused,
        num_too_large=tally.num_too_large,
        num_fitting=len(ranked),
        layouts=ranked[: request.max_layouts],
        min_memory=tally.lowest,
        warnings=list(_warnings(search, tally)),
    )


def _warnings(search: Search, tally: Tally) -> Iterator[str]:
    yield from _left_out(search)
    if tally.fitting:
        yield from _gathered(search, tally)
    elif tally.lowest is not None:
        yield _nearest(search, tally.lowest)
    else:
        because = f": {tally.refusal}" if tally.refusal else ""
        yield f"No degrees of {search.num_gpus:,} GPUs are allowed by the scenario{because}"


def _left_out(search: Search) -> Iterator[str]:
    """What the search does not count, and what of the scenario it does not keep."""
    if search.scenario.training.micro_batch_size is None:
        yield "Activations not counted: give training.micro_batch_size and sequence_length"
    elif uncounted := uncounted_activations(search.question.model(tensor=1)):
        yield uncounted
    given = search.scenario.parallelism
    searched = [name for name in SEARCHED_DEGREES if name not in search.degrees.kept]
    dropped = [f"{name} {degree:,}" for name in searched if (degree := getattr(given, name)) > 1]
    if dropped:
        yield f"The scenario's {', '.join(dropped)} are ignored: the search tries all such degrees"


def _nearest(search: Search, lowest: MinMemory) -> str:
    """The candidate with the min memory, where no layout fits."""
    recomputed = f" and recomputation {lowest.recomputation}" if lowest.recomputation else ""
    return (
        f"No layout fits: {degrees_text(lowest.parallelism)}{recomputed} is the nearest and needs "
        f"{decimal_bytes_text(lowest.gpu_bytes)}, and "
        f"{decimal_bytes_text(search.room_bytes)} is free. {search.question.remedies(search.num_gpus)}, or other nodes"
    )


def _gathered(search: Search, tally: Tally) -> Iterator[str]:
    """Whether the headroom is too small for what FSDP or ZeRO 3 gathers in a layout that fits."""
    found = [each for layout in tally.fitting if (each := search.question.gathered(layout.parallelism)) is not None]
    largest, capacity = max(found, default=None), search.gpu_memory_bytes
    headroom = capacity - search.room_bytes
    if largest is not None and largest.num_bytes > headroom:
        enough = min(math.ceil(100 * largest.num_bytes / capacity) / 100, MAX_HEADROOM_FRACTION)
        yield (
            f"{largest.text}, {decimal_bytes_text(largest.num_bytes)} that are not counted. "
            f"This exceeds the headroom of {decimal_bytes_text(headroom)}. Give a headroom_fraction of {enough}"
        )
