"""Answer of a layout search: layouts that fit, ranked; those that nearly fit; and what to know before use."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic import Field

from sizing.errors import InvalidInput
from sizing.layout import Parallelism
from sizing.layout.degrees import SEARCHED_DEGREES, degrees_text
from sizing.questions.chunks import ItemRange, Progress, cut, ignore_progress
from sizing.questions.headroom import MAX_HEADROOM_FRACTION
from sizing.questions.layouts.memory_savings import (
    offload_least,
    offload_text,
    recompute_fewest_layers,
    wants_fewest_recomputed_layers,
)
from sizing.questions.layouts.objectives import OF_MEMORY_AND_TIME, make_sort_key
from sizing.questions.layouts.report import FoundLayout, LayoutsReport, MinMemory, NearlyFitting
from sizing.questions.layouts.request import OBJECTIVES_OF_TIME, LayoutsRequest
from sizing.questions.layouts.search import Judgement, Search, SizedCandidate, Tally, require_searchable
from sizing.strict_model import StrictModel
from sizing.training.activations import uncounted_activations
from sizing.training.links import network_warnings
from sizing.training.memory_search import RECOMPUTATIONS, CannotRun, no_fit_text, suggest_shard_group
from sizing.units import counted_text, decimal_bytes_text, percent_text, seconds_text

MEASURED_CONTEXT_TOKENS = 4096
"""Tokens of a sequence on each context rank, the least in `validation`: 8 ranks in SimuMax's runs of 405B layers on
B200, 2 in Megatron-Bridge's of 405B on H100."""
MEASURED_CONTEXT_NODES = 2
"""Nodes over which the context ranks of Megatron-Bridge's runs lie, beside tensor 8."""
_CANDIDATES_PER_CHUNK = 500
"""1 to 3 s of one core, at 2 to 6 ms each."""
_REPORTED_CANDIDATES_PER_CHUNK = 100
"""Candidates of a chunk that asks the storage about each layout that fits, some 20 ms each: 2 s of one core."""


class LayoutsPart(StrictModel):
    """What the candidates of a chunk need, and the layouts among them where all that fit must be reported."""

    judgements: list[Judgement] = Field(description="What each candidate of the chunk needs, in their order.")
    layouts: list[FoundLayout] = Field(description="Those that fit, in their order, where the storage decides.")


class LayoutsWork:
    """A layout search as chunks of candidates. What is tried of the best of all candidates alone is left to the merge.

    Raises InvalidInput where a field is missing for the search, or there are more than 20,000 candidates.
    """

    part = LayoutsPart

    def __init__(self, request: LayoutsRequest) -> None:
        self._search = Search(request)
        self._request = request
        self._candidates = self._search.list_candidates()
        self._reports_all = self._search.objective not in (
            *OF_MEMORY_AND_TIME,
            "goodput",
        ) and not wants_fewest_recomputed_layers(request, self._search)
        max_items = _REPORTED_CANDIDATES_PER_CHUNK if self._reports_all else _CANDIDATES_PER_CHUNK
        self.chunks = cut([0, len(self._candidates)], max_items=max_items) or [ItemRange(0, 0)]

    @staticmethod
    def refuse(request: LayoutsRequest) -> None:
        """Raise InvalidInput as the work, where the scenario leaves open what a search needs."""
        require_searchable(request)

    def compute(self, items: ItemRange, progress: Progress = ignore_progress) -> LayoutsPart:
        """Judge the candidates of a range, and ask the storage about those that fit where it decides."""
        part, tally = LayoutsPart(judgements=[], layouts=[]), Tally()
        for done, candidate in enumerate(self._candidates[slice(*items)], start=1):
            part.judgements.append(self._search.judge(candidate))
            if self._reports_all and (fitting := self._search.count(candidate, part.judgements[-1], tally)):
                part.layouts.append(self._search.report_layout(fitting))
            progress(done / (items.stop - items.start))
        return part

    def merge(self, parts: Iterable[LayoutsPart]) -> LayoutsReport:
        """Report the best of all candidates, once what the best leave room for is tried too."""
        request, search, tally = self._request, self._search, Tally()
        judgements: list[Judgement] = []
        reported: list[FoundLayout] = []
        for part in parts:
            judgements += part.judgements
            reported += part.layouts
        for candidate, judgement in zip(self._candidates, judgements, strict=True):
            search.count(candidate, judgement, tally)
        variants = list(search.list_variants(tally))
        for candidate in variants:
            search.count(candidate, search.judge(candidate), tally)
        recompute_fewest_layers(request, search, tally)
        num_held = len(tally.fitting)
        offload_least(request, search, tally)
        layouts = _choose_best(request, search, tally, reported)
        has_time = search.objective in OBJECTIVES_OF_TIME
        near = find_nearly_fitting(tally.fitting, tally.tight, room_bytes=search.room_bytes) if has_time else ()
        return LayoutsReport(
            objective=search.objective,
            num_gpus=search.num_gpus,
            num_nodes=-(-search.num_gpus // search.question.node.spec.gpus_per_node),
            node=search.question.node.name,
            gpu_memory_bytes=search.gpu_memory_bytes,
            room_bytes=search.room_bytes,
            num_candidates=len(self._candidates) + len(variants) + len(tally.fitting) - num_held,
            num_refused=tally.num_refused,
            num_too_large=tally.num_too_large,
            num_fitting=len(tally.fitting),
            layouts=layouts,
            min_memory=tally.lowest,
            nearly_fitting=list(near),
            warnings=[*_warn_of_unknown_goodput(search, layouts), *_warnings(search, tally)],
        )


def answer_layouts(request: LayoutsRequest) -> LayoutsReport:
    """Answer a LayoutsRequest in this process. Raises InvalidInput as `LayoutsWork`."""
    work = LayoutsWork(request)
    return work.merge(map(work.compute, work.chunks))


def _choose_best(
    request: LayoutsRequest, search: Search, tally: Tally, reported: Sequence[FoundLayout]
) -> list[FoundLayout]:
    """Choose the best by the objective. Where the storage does not decide, only those that are shown ask it.

    `reported`: layouts of the first that fit, whose storage has been asked.
    """
    order = make_sort_key(search.objective, shards_over_data=search.shards_over_data)
    if search.objective in OF_MEMORY_AND_TIME:
        return [search.report_layout(each) for each in sorted(tally.fitting, key=order)[: request.max_layouts]]
    if search.objective == "goodput":
        return find_max_goodput(search, tally.fitting, num=request.max_layouts)
    further = map(search.report_layout, tally.fitting[len(reported) :])
    return sorted([*reported, *further], key=order)[: request.max_layouts]


def _warnings(search: Search, tally: Tally) -> Iterator[str]:
    yield from _warn_of_uncounted(search)
    if tally.fitting:
        yield from _warn_of_gathered_weights(search, tally)
        yield from _warn_of_offload_rates(search, tally)
        yield from _warn_of_unmeasured_contexts(search, tally)
        if any(each.tokens_per_second is not None for each in tally.fitting):
            yield from network_warnings(search.question.node, search.num_gpus)
    elif tally.lowest is not None:
        reason = explain_no_fit(search, tally.lowest)
        yield f"{reason.because}{_describe_offload(search, tally.emptied)}. {reason.remedy}"
    else:
        because = f": {tally.refusal}" if tally.refusal else ""
        yield f"No degrees of {search.num_gpus:,} GPUs are allowed by the scenario{because}"


def _warn_of_uncounted(search: Search) -> Iterator[str]:
    """Warn of what the search does not count, and of what it does not keep of the scenario."""
    if search.scenario.training.micro_batch_size is None:
        yield "Activations not counted: give training.micro_batch_size and sequence_length"
    elif uncounted := uncounted_activations(search.question.model(tensor=1)):
        yield uncounted
    given = search.scenario.parallelism
    searched = [name for name in SEARCHED_DEGREES if name not in search.degrees.kept]
    dropped = [f"{name} {degree:,}" for name in searched if (degree := getattr(given, name)) > 1]
    if dropped:
        yield f"The scenario's {', '.join(dropped)} are ignored: the search tries all such degrees"


def explain_no_fit(search: Search, lowest: MinMemory) -> CannotRun:
    """Explain why no layout fits, by the candidate with the min memory, and what to change."""
    recomputed = f" and recomputation {lowest.recomputation}" if lowest.recomputation else ""
    is_sure = lowest.gpu_bytes > search.gpu_memory_bytes
    because = no_fit_text(
        search.num_gpus,
        f"the nearest layout, {degrees_text(lowest.parallelism)}{recomputed}, needs",
        needed_bytes=lowest.gpu_bytes,
        gpu_memory_bytes=search.gpu_memory_bytes,
        headroom="" if is_sure else f" with {percent_text(1 - search.room_bytes / search.gpu_memory_bytes)} headroom",
    )
    remedy = f"{search.question.remedies(lowest.parallelism)}, or other nodes"
    return CannotRun(because, remedy, is_sure=is_sure)


def refuse(request: LayoutsRequest, lowest: MinMemory) -> CannotRun:
    """Explain why no layout fits, with a number of GPUs on which one does where the first that are tried have one."""
    search, scenario = Search(request), request.scenario
    refusal = explain_no_fit(search, lowest)
    divided = suggest_shard_group(
        search.question,
        lowest.parallelism,
        room_bytes=search.room_bytes,
        recomputations=RECOMPUTATIONS,
        has_own_batch=False,
    )
    for remedy in divided:
        return refusal._replace(remedy=remedy)
    fewest = search.num_gpus * 2 ** math.ceil(math.log2(max(2.0, lowest.gpu_bytes / search.room_bytes)))
    for more in (fewest, 2 * fewest):
        cluster = scenario.cluster.model_copy(update={"num_gpus": more})
        larger = request.model_copy(update={"scenario": scenario.model_copy(update={"cluster": cluster})})
        try:
            layouts = answer_layouts(larger).layouts
        except InvalidInput:
            continue
        if layouts:
            fits = f"Use more GPUs: {degrees_text(layouts[0].parallelism)} fits on {more:,}"
            return refusal._replace(remedy=f"{fits}; or use other nodes")
    return refusal


def _describe_offload(search: Search, emptied: SizedCandidate | None) -> str:
    """Say what the nearest needs with all off the GPU that its framework moves, where it moves anything."""
    if emptied is None or emptied.offload is None:
        return ""
    needed = f"; with {offload_text(emptied.offload)} off the GPU {decimal_bytes_text(emptied.gpu_bytes)}"
    if emptied.gpu_bytes > search.room_bytes:
        return needed
    return f"{needed}, but the host does not hold that, or the time of its step is not known"


def _warn_of_offload_rates(search: Search, tally: Tally) -> Iterator[str]:
    """Warn of what times rest on of layouts that keep something off the GPU."""
    rates = ("link_bytes_per_second", "optimizer_parameters_per_second")
    unknown = [f"training.offload.{name}" for name in rates if getattr(search.offload_rates, name) is None]
    if unknown and any(each.offload for each in tally.fitting):
        yield (
            f"Layouts with something off the GPU rest on defaults of {' and '.join(unknown)}, and on copies that hide "
            "behind the passes. Measure them"
        )


def _warn_of_unmeasured_contexts(search: Search, tally: Tally) -> Iterator[str]:
    """Warn where times rest on context ranks as no run has that comes near its prediction in `validation`."""
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


def _warn_of_gathered_weights(search: Search, tally: Tally) -> Iterator[str]:
    """Warn of a headroom too small for what FSDP or ZeRO 3 gathers, where no batch is counted with it."""
    if any(layout.activation_bytes is not None for layout in tally.fitting):
        return
    gathered = [each for layout in tally.fitting if (each := search.question.gathered(layout.parallelism)) is not None]
    largest, capacity = max(gathered, default=None), search.gpu_memory_bytes
    headroom = capacity - search.room_bytes
    if largest is not None and largest.num_bytes > headroom:
        enough = min(math.ceil(100 * largest.num_bytes / capacity) / 100, MAX_HEADROOM_FRACTION)
        yield (
            f"{largest.text}, {decimal_bytes_text(largest.num_bytes)} that are not counted. "
            f"This exceeds the headroom of {decimal_bytes_text(headroom)}. Give a headroom_fraction of {enough}"
        )


MAX_RANKED_BY_GOODPUT = 200
"""Layouts of the shortest steps for which goodput is computed: no other catches up with its saves."""


def find_max_goodput(search: Search, fitting: Sequence[SizedCandidate], *, num: int) -> list[FoundLayout]:
    """Find the layouts of the max goodput, in the order of their steps until no other can be among them.

    No other can where even without saves and failures it would come after those that are shown.
    """
    best: list[FoundLayout] = []
    for each in sorted(fitting, key=make_sort_key("step-time"))[: max(MAX_RANKED_BY_GOODPUT, num)]:
        if len(best) >= num and (each.tokens_per_second or 0.0) < (best[num - 1].effective_tokens_per_second or 0.0):
            break
        bisect.insort(best, search.report_layout(each), key=make_sort_key("goodput"))
    return best[:num]


def _warn_of_unknown_goodput(search: Search, layouts: Sequence[FoundLayout]) -> Iterator[str]:
    """Say why layouts that were to be ranked by goodput are ranked by the time of a step."""
    unknown = [each for each in layouts if each.effective_tokens_per_second is None]
    if search.objective != "goodput" or not unknown:
        return
    which = f"Goodput of {counted_text(len(unknown), 'layout')} not known, and they are ranked by the time of a step"
    if any(each.stall_seconds is None for each in unknown):
        yield f"{which}: the storage has no write rate. Give storage.profile.write_bytes_per_second"
    else:
        interval = seconds_text(search.scenario.checkpoint.interval_seconds)
        yield (
            f"{which}: a checkpoint takes longer than the interval of {interval}, so training never advances. "
            "Raise checkpoint.interval_seconds"
        )


MAX_MISSING_FRACTION = 0.25
"""Max fraction of the memory without the headroom that a candidate lacks: what lacks more is another layout."""
MAX_SHOWN = 3
"""Max candidates that nearly fit: they are read beside the layouts that fit, which the request is for."""
_DEGREES = (
    "tensor",
    "pipeline",
    "virtual_pipeline",
    "context",
    "data",
    "expert",
    "expert_tensor",
    "shard_group",
    "zero_stage",
)


def find_nearly_fitting(
    fitting: Sequence[SizedCandidate], tight: Sequence[SizedCandidate], *, room_bytes: int
) -> Iterator[NearlyFitting]:
    """Find the fastest candidates that lack a little memory and would be faster than all that fit."""
    best = min((each.step_seconds or math.inf for each in fitting), default=math.inf)
    near = [
        each
        for each in tight
        if each.gpu_bytes <= room_bytes * (1 + MAX_MISSING_FRACTION) and (each.step_seconds or math.inf) < best
    ]
    once = {(str(each.parallelism), each.micro_batch_size, each.gpu_bytes): each for each in reversed(near)}
    for each in sorted(once.values(), key=lambda sized_candidate: sized_candidate.step_seconds or math.inf)[:MAX_SHOWN]:
        nearest = min(
            fitting, key=lambda other: (_measure_distance(each, other), other.step_seconds or math.inf), default=None
        )
        changes = _list_changes(each, nearest) if nearest else ()
        yield NearlyFitting(
            parallelism=each.parallelism,
            micro_batch_size=each.micro_batch_size,
            recomputation=each.recomputation,
            gpu_bytes=each.gpu_bytes,
            missing_bytes=each.gpu_bytes - room_bytes,
            step_seconds=each.step_seconds,
            change=", ".join(
                f"{name.replace('_', ' ')} {after} in place of {before}" for name, before, after in changes
            )
            if nearest
            else "other nodes: no candidate fits",
        )


def _measure_distance(one: SizedCandidate, other: SizedCandidate) -> float:
    """Count doublings and halvings of degrees and microbatch; any other change counts as one."""
    distance = 0.0
    for _, before, after in _list_changes(one, other):
        is_scaled = isinstance(before, int) and isinstance(after, int) and before and after
        distance += abs(math.log2(after / before)) if is_scaled else 1.0
    return distance


def _list_changes(one: SizedCandidate, other: SizedCandidate) -> Iterator[tuple[str, Any, Any]]:
    """List the settings in which two candidates differ, with both values."""
    settings = [
        {name: getattr(each.parallelism, name) for name in _DEGREES}
        | {
            "micro-batch": each.micro_batch_size,
            "recomputation": each.recomputation_text,
            "offload": offload_text(each.offload),
        }
        for each in (one, other)
    ]
    for name, before in settings[0].items():
        if before != settings[1][name]:
            yield name, before, settings[1][name]
