"""From a LayoutsRequest to the layouts that fit, ranked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from sizing.errors import InvalidInput
from sizing.explore.layouts.layouts_report import FoundLayout, LayoutsReport, MinMemory
from sizing.explore.layouts.layouts_request import (
    MAX_HEADROOM_FRACTION,
    OBJECTIVES_OF_TIME,
    LayoutsRequest,
    layouts_request_from,
)
from sizing.explore.layouts.most_goodput import of_max_goodput, unknown_goodput
from sizing.explore.layouts.nearly import nearly_fitting
from sizing.explore.layouts.objectives import OF_MEMORY_AND_TIME, ranking
from sizing.explore.layouts.offloads import offload_text, with_offload
from sizing.explore.layouts.partial import with_fewest_layers
from sizing.explore.layouts.search import Candidate, Search, Tally, Weighed
from sizing.layout import Parallelism
from sizing.layout.degrees import SEARCHED_DEGREES, degrees_text
from sizing.training.memory.activations import uncounted_activations
from sizing.training.memory.nearest import CannotRun
from sizing.units import counted_text, decimal_bytes_text, percent_text

MEASURED_CONTEXT_TOKENS = 4096
"""Of a sequence on each context rank, the least in `validation`: 8 ranks in SimuMax's runs of 405B layers on B200, 2 in
Megatron-Bridge's of 405B on H100."""
MEASURED_CONTEXT_NODES = 2
"""Over which those of Megatron-Bridge lie, beside tensor 8."""

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
    _look_at(search, candidates, tally, progress)
    candidates += (variants := list(search.variants(tally)))
    _look_at(search, variants, tally, None)
    with_fewest_layers(request, search, tally)
    num_held = len(tally.fitting)
    with_offload(request, search, tally)
    layouts = _best(request, search, tally)
    has_time = search.objective in OBJECTIVES_OF_TIME
    near = nearly_fitting(tally.fitting, tally.tight, room_bytes=search.room_bytes) if has_time else ()
    return LayoutsReport(
        objective=search.objective,
        num_gpus=search.num_gpus,
        num_nodes=-(-search.num_gpus // search.question.node.spec.gpus_per_node),
        node=search.question.node.name,
        gpu_memory_bytes=search.gpu_memory_bytes,
        room_bytes=search.room_bytes,
        num_candidates=len(candidates) + len(tally.fitting) - num_held,
        num_refused=tally.num_refused,
        num_too_large=tally.num_too_large,
        num_fitting=len(tally.fitting),
        layouts=layouts,
        min_memory=tally.lowest,
        nearly_fitting=list(near),
        warnings=[*unknown_goodput(search, layouts), *_warnings(search, tally)],
    )


def _look_at(search: Search, candidates: list[Candidate], tally: Tally, progress: Progress | None) -> None:
    for done, candidate in enumerate(candidates, start=1):
        search.look_at(candidate, tally)
        if progress is not None:
            progress(done / len(candidates))


def _best(request: LayoutsRequest, search: Search, tally: Tally) -> list[FoundLayout]:
    """The best by the objective. The storage is asked for those alone that are shown, where it does not decide."""
    order = ranking(search.objective, shards_over_data=search.shards_over_data)
    if search.objective in OF_MEMORY_AND_TIME:
        return [search.found(each) for each in sorted(tally.fitting, key=order)[: request.max_layouts]]
    if search.objective == "goodput":
        return of_max_goodput(search, tally.fitting, num=request.max_layouts)
    return sorted(map(search.found, tally.fitting), key=order)[: request.max_layouts]


def _warnings(search: Search, tally: Tally) -> Iterator[str]:
    yield from _left_out(search)
    if tally.fitting:
        yield from _gathered(search, tally)
        yield from _offloaded(search, tally)
        yield from _beyond_measured_contexts(search, tally)
    elif tally.lowest is not None:
        found = nothing_fits(search, tally.lowest)
        yield f"{found.because}{_off_gpu(search, tally.emptied)}. {found.remedy}"
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


def nothing_fits(search: Search, lowest: MinMemory) -> CannotRun:
    """Why no layout fits, by the candidate with the min memory, and what to change."""
    recomputed = f" and recomputation {lowest.recomputation}" if lowest.recomputation else ""
    headroom = percent_text(1 - search.room_bytes / search.gpu_memory_bytes)
    return CannotRun(
        f"NOTHING FITS {counted_text(search.num_gpus, 'GPU')}: the nearest, "
        f"{degrees_text(lowest.parallelism)}{recomputed}, needs {decimal_bytes_text(lowest.gpu_bytes)} on the fullest "
        f"GPU, which has {decimal_bytes_text(search.gpu_memory_bytes)}, {headroom} of it headroom",
        f"{search.question.remedies(search.num_gpus)}, or other nodes",
        is_sure=lowest.gpu_bytes > search.gpu_memory_bytes,
    )


def _off_gpu(search: Search, emptied: Weighed | None) -> str:
    """What the nearest needs with all off the GPU that its framework moves, where it moves anything."""
    if emptied is None or emptied.offload is None:
        return ""
    needed = f"; with {offload_text(emptied.offload)} off the GPU {decimal_bytes_text(emptied.gpu_bytes)}"
    if emptied.gpu_bytes > search.room_bytes:
        return needed
    return f"{needed}, but the host does not hold that, or the time of its step is not known"


def _offloaded(search: Search, tally: Tally) -> Iterator[str]:
    """What the times of layouts rest on that keep something off the GPU, where such layouts were found."""
    rates = ("link_bytes_per_second", "optimizer_parameters_per_second")
    unknown = [f"training.offload.{name}" for name in rates if getattr(search.offload_rates, name) is None]
    if unknown and any(each.offload for each in tally.fitting):
        yield (
            f"Layouts with something off the GPU rest on defaults of {' and '.join(unknown)}, and on copies that hide "
            "behind the passes. Measure them"
        )


def _beyond_measured_contexts(search: Search, tally: Tally) -> Iterator[str]:
    """Whether times rest on context ranks as no run has that comes near its prediction in `validation`."""
    training, linked = search.scenario.training, search.question.node.spec.num_linked_gpus

    def is_beyond(parallelism: Parallelism) -> bool:
        is_short = (training.sequence_length or math.inf) < MEASURED_CONTEXT_TOKENS * parallelism.context
        is_wide = parallelism.tensor * parallelism.context > MEASURED_CONTEXT_NODES * linked
        return parallelism.context > 1 and (is_short or is_wide)

    if search.objective in OBJECTIVES_OF_TIME and any(is_beyond(each.parallelism) for each in tally.fitting):
        yield (
            f"Measured runs that agree have context ranks on at most {MEASURED_CONTEXT_NODES} nodes, with "
            f"{MEASURED_CONTEXT_TOKENS:,} tokens of a sequence or more on each. Others are ranked as if a GPU computed "
            "as fast on fewer tokens, and attention hid what context ranks exchange. Measure before you choose one"
        )


def _gathered(search: Search, tally: Tally) -> Iterator[str]:
    """Whether the headroom is too small for what FSDP or ZeRO 3 gathers, where no batch is counted with it."""
    if any(layout.activation_bytes is not None for layout in tally.fitting):
        return
    found = [each for layout in tally.fitting if (each := search.question.gathered(layout.parallelism)) is not None]
    largest, capacity = max(found, default=None), search.gpu_memory_bytes
    headroom = capacity - search.room_bytes
    if largest is not None and largest.num_bytes > headroom:
        enough = min(math.ceil(100 * largest.num_bytes / capacity) / 100, MAX_HEADROOM_FRACTION)
        yield (
            f"{largest.text}, {decimal_bytes_text(largest.num_bytes)} that are not counted. "
            f"This exceeds the headroom of {decimal_bytes_text(headroom)}. Give a headroom_fraction of {enough}"
        )
