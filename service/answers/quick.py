"""Answers computed beside the event loop, without a thread, where they are known to be quick.

Handing an answer to a thread and back costs as much as a quick answer itself. A layout of thousands of unequal stages
takes half a second, for which everybody else would wait if the event loop computed it. So the first answer for a layout
is computed in a thread, and the next ones beside the event loop only where that one was quick, and each one since.
Of a refusal it is learned where it was slow, never that it was quick: what is refused for its storage in a millisecond
may take seconds with another.
To hold a layout against a goodput takes 30 times as long as without one, so each set of targets is learned by itself.
What is known to be costly before it runs is left to other processes.
"""

from __future__ import annotations

import collections
import time

from starlette.concurrency import run_in_threadpool

from service.answers.calibrated import SystemLimits, no_limits, with_calibration
from service.database import Database
from sizing.errors import InvalidInput
from sizing.layout.fit import check_fit
from sizing.layout.formats import format_of
from sizing.layout.parallelism import Parallelism
from sizing.layout.stages import num_unlike_stages
from sizing.layout.trained_model import resolved_model, trained_inventory
from sizing.report import SizingReport, answer
from sizing.scenario import REFERENCE_SCENARIO, Scenario, scenario_from
from sizing.sized_layout import layout_text

QUICK_SECONDS = 0.02
"""Max processor time of a quick answer. Others wait so long for a quick answer at most; the alternatives of a new
layout, which are kept for the next answers, take about half of it."""
SLOW_SECONDS = 0.1
"""Max processor time of a model that is not costly. A model in a format whose answer took longer twice is costly from
then on, whatever its degrees: shards of experts that are dealt to many ranks take half a second, which their number
does not tell before. Once may be a busy machine, or modules that the first question of a kind loads."""
SURELY_SLOW_SECONDS = 10 * SLOW_SECONDS
"""Processor time from which once is enough."""

_TIMES_SLOW = 2
_MAX_LAYOUTS = 10_000
"""Remembered: a few megabytes. Then they are learned anew."""


class QuickAnswers:
    """Answers scenarios, and remembers which layouts are quick."""

    def __init__(self, database: Database) -> None:
        self._database = database
        answer(scenario_from(REFERENCE_SCENARIO))  # reads the catalogs, which would make the first layout look slow
        self._is_quick: dict[int, bool] = {}
        self._times_slow: collections.Counter[int] = collections.Counter()

    def answer_at_once(self, scenario: Scenario) -> SizingReport | None:
        """Answer a scenario whose layout has proved quick; None for others. Raises InvalidInput."""
        is_calibrated = scenario.storage is not None and scenario.storage.calibration is not None
        kind = _kind(layout_text(scenario), scenario)
        if is_calibrated or not self._is_quick.get(kind, False):
            return None
        start = time.thread_time()
        try:
            return answer(scenario)
        finally:  # also of a refusal, which may take as long
            self._is_quick[kind] = time.thread_time() - start < QUICK_SECONDS

    async def answer_in_thread(self, scenario: Scenario, *, limits: SystemLimits = no_limits) -> SizingReport | None:
        """Answer any other scenario, which may name a stored calibration, in a thread; None for a costly one.

        Raises InvalidInput, and as `with_calibrations`.
        """
        text = layout_text(scenario)
        saved = scenario.model_dump_json(  # whatever the degrees
            include={"model": True, "training": True, "checkpoint": {"format", "optimizer_sharding"}},
            exclude_unset=True,
        )
        model = _kind(saved, scenario)
        if self._times_slow[model] >= _TIMES_SLOW:
            return None
        outcome, seconds = await run_in_threadpool(_timed_answer, self._database, scenario, text, limits)
        if len(self._is_quick) + len(self._times_slow) >= _MAX_LAYOUTS:
            self._is_quick.clear()
            self._times_slow.clear()
        if isinstance(outcome, SizingReport):
            self._is_quick.setdefault(_kind(text, scenario), seconds < QUICK_SECONDS)  # later ones find it ready
        if isinstance(outcome, MemoryError) or seconds > SURELY_SLOW_SECONDS:
            self._times_slow[model] = _TIMES_SLOW
        elif seconds > SLOW_SECONDS:
            self._times_slow[model] += 1
        if isinstance(outcome, InvalidInput):
            raise outcome
        return outcome if isinstance(outcome, SizingReport) else None


def _kind(text: str, scenario: Scenario) -> int:
    """Return a key of what decides an answer's time, beside the values of storage, interval and failures."""
    return hash((text, frozenset(scenario.targets.model_fields_set)))


def _timed_answer(
    database: Database, scenario: Scenario, layout: str, limits: SystemLimits
) -> tuple[SizingReport | InvalidInput | MemoryError | None, float]:
    """Return the report or the reason for none, with the processor time of this thread; None for a costly scenario."""
    if is_costly(scenario, layout):
        return None, 0.0
    calibrated, start = with_calibration(database, scenario, limits=limits), time.thread_time()
    try:
        outcome: SizingReport | InvalidInput | MemoryError = answer(calibrated)
    except (InvalidInput, MemoryError) as error:
        outcome = error.with_traceback(None)  # whose frames hold the arrays
    return outcome, time.thread_time() - start


MAX_HOLDINGS = 250
"""Max holdings of a layout that is answered in a thread. A holding takes 0.05 to 0.5 ms, so these about 0.1 s. Presets
on evenly cut pipelines have 10 to 150; 1,024 unlike stages of a dense model 9,000 (0.6 s), of experts 10,000 (1.4 s);
5,000 tensors of a list take 2 s, and 15 s where 2,000 ranks share them."""
MAX_RANK_HOLDINGS = 1_000_000
"""Holdings x ranks of a stage, of a layout that is answered in a thread and in a format that finds its files rank by
rank. A million takes about 0.1 s and 10 MB. Llama 3.1 405B on 131,072 GPUs (tensor 8, pipeline 16) has 0.3 million;
DeepSeek-V3 on 100,000 data ranks 1.8 million, 0.2 s; 64 experts in 10,000 layers on a million ranks 36 million, 4 s and
350 MB."""
MAX_RANKS = 150_000
"""Ranks of a layout that is answered in a thread and in any other format. Where each rank has a file, as of FSDP or
DeepSpeed, 100,000 ranks take 0.1 to 0.2 s, a million 0.8 s and 60 MB. The largest clusters have 100,000 to 200,000
GPUs."""
MAX_LAYOUT_CHARACTERS = 8 * 1024
"""Max length of the text of a layout that is counted at all. A preset takes 200, a config.json 1,500; to resolve a
longer one takes longer than the layouts that are quick."""


def is_costly(scenario: Scenario, layout: str) -> bool:
    """Tell whether a scenario belongs in a compute process, as a layout search does. `layout`: its layout's text."""
    if scenario.leaves_degrees_open or len(layout) > MAX_LAYOUT_CHARACTERS:
        return True
    holdings = num_holdings(scenario)
    return holdings > MAX_HOLDINGS or (holdings > 0 and _has_too_many_ranks(scenario, holdings))


def num_holdings(scenario: Scenario) -> int:
    """Count unlike stages x classes of tensors, as saved and as restored: the time of an answer grows with it.

    0 where the answer is a refusal, which comes before the work.

    >>> from sizing.scenario import REFERENCE_SCENARIO, scenario_from
    >>> num_holdings(scenario_from(REFERENCE_SCENARIO))
    42
    """
    try:
        return sum(_count_held(scenario, each) for each in _layouts(scenario))
    except InvalidInput:
        return 0


def _has_too_many_ranks(scenario: Scenario, holdings: int) -> bool:
    saved_as = format_of(scenario.checkpoint.format, scenario.training.framework)
    if saved_as.walks_ranks:
        return holdings * max(each.ranks_per_stage for each in _layouts(scenario)) > MAX_RANK_HOLDINGS
    return max(each.num_gpus for each in _layouts(scenario)) > MAX_RANKS


def _layouts(scenario: Scenario) -> list[Parallelism]:
    """Return the degrees that save, and the degrees that restore where they differ."""
    restored = scenario.checkpoint.restore_parallelism
    return [scenario.parallelism, *([] if restored is None else [restored])]


def _count_held(scenario: Scenario, parallelism: Parallelism) -> int:
    model = resolved_model(scenario.model, scenario.training, parallelism)
    cluster = scenario.cluster.without_counts
    check_fit(model, parallelism, cluster, scenario.training.framework)
    inventory = trained_inventory(model.inventory, scenario.training)
    return len(inventory) * num_unlike_stages(inventory, parallelism, num_layers=model.num_layers)
