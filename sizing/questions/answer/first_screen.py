"""The first screen of a report, and the first page: the verdict, the figures of a decision, what may mislead."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from sizing.guesses.figures import BEST_INTERVAL, BYTES, LOST, OVERHEAD
from sizing.present.guesses import guess_sentences, mark_meaning, roughly, with_range
from sizing.present.purchase import amount_text, capacity_of_size, capacity_text, cost_text, priced_figure, target_text
from sizing.present.rows import (
    FAILURES,
    MTBF,
    UNKNOWN,
    FirstScreen,
    LeadingRow,
    Row,
)
from sizing.present.size import headline
from sizing.present.targets import (
    asks_for_size,
    has_missed,
    is_weak,
    lack_of_calibrated,
    lost_by,
    met_together,
    remedies,
    verdict,
)
from sizing.questions.answer.run_rows import never_needs_storage, restore_text, write_text
from sizing.questions.answer.state_rows import fit_rows, fits_text, host_memory_rows, written_beside
from sizing.report import SizingReport
from sizing.run.failure_process import Shares
from sizing.run.interval import every_text
from sizing.run.remedies import NOT_AS_ASKED, exact_seconds_text
from sizing.run.request import INTERVAL, profile_path
from sizing.run.tier_rows import missing_read_rates
from sizing.run.write import NO_WRITE_RATE
from sizing.storage.joint_rates import FILE_SYSTEM
from sizing.storage.rates import DIRECTIONS, Direction
from sizing.units import (
    SECONDS_PER_DAY,
    binary_bytes_text,
    counted_text,
    decimal_bytes_text,
    min_rate_text,
    percent_text,
    seconds_text,
    share_of_interval_text,
)

NUM_GUESSES = 3
"""On the first screen, those that move the answer most; the tables have all of them."""


def first_screen(report: SizingReport) -> FirstScreen:
    """The first screen of a report."""
    lost, figures = lost_by(report.shares, report.interval), tuple(key_figures(report))
    cannot_run = report.training.cannot_run
    said = ((cannot_run,) if cannot_run else ()) + ((NO_WRITE_RATE,) if asks_for_size(report) else ())
    return FirstScreen(
        headline=headline(report),
        verdict=verdict(report),
        misses=cannot_run is not None or has_missed(report.targets),
        is_weak=is_weak(report.targets, lost),
        remedies=tuple(remedies(report)),
        figures=figures,
        mark_meaning=mark_meaning(report, figures, SHOWN),
        warnings=tuple(
            each for each in report.warnings if not each.startswith(said) and each != report.required.write_obstacle
        ),
        guesses=tuple(guess_sentences(report, NUM_GUESSES)),
    )


LEAST_OF_HOST_FRACTION = 0.1
"""Share of a node's host memory from which a save's need is on the first screen. A choice: less is in the tables."""

_NEEDED: Mapping[Direction, str] = {
    "write": "required.write_bytes_per_second",
    "read": "required.restore_bytes_per_second",
}
"""What to buy in each direction, by its path in the report."""
_OTHER: Mapping[Direction, Direction] = {"write": "read", "read": "write"}
_TIMES: Mapping[Direction, tuple[str, ...]] = {
    "write": ("write.seconds", "write.stall_seconds"),
    "read": ("restore.seconds",),
}
"""What each direction takes, likewise."""
LONGEST_BEST_SECONDS = 7 * SECONDS_PER_DAY
"""The longest best interval that is shown as a number. A choice: longer ones follow from failures so rare that stops
which nobody counts decide, of which Llama 3 had one a day for maintenance alone (arXiv 2407.21783, section 3.3.4)."""
SHOWN = {
    BYTES,
    LOST,
    OVERHEAD,
    BEST_INTERVAL,
    *_NEEDED.values(),
    "export.seconds",
    *(path for times in _TIMES.values() for path in times),
}
"""The figures of the rows, by their paths in the report."""


def key_figures(report: SizingReport) -> list[Row]:
    """The few figures that a decision is made on, in the order in which people ask."""
    return [*_step(report), *_checkpoint(report), *_loss(report), *_purchase(report)]


def _step(report: SizingReport) -> Iterator[Row]:
    """The time of a step with the range of its error and MFU where they are known, and whether the GPUs hold it all."""
    memory, step = report.training, report.training.step
    if step is None or memory.total_bytes is None:
        yield from fit_rows(report)
        return
    ends = f"{seconds_text(step.seconds_low)} to {seconds_text(step.seconds_high)}"
    never = f"; never measured: {', '.join(step.not_compared)}" if step.not_compared else ""
    needed = decimal_bytes_text(memory.total_bytes)
    where = "on the fullest GPU" if memory.gpu_memory_bytes is None else fits_text(memory, is_one=False)
    meaning = f"{ends} by measured runs{never}; MFU {percent_text(step.mfu_fraction)}; {needed} {where}"
    yield Row("Step time", seconds_text(step.seconds), meaning)


def _checkpoint(report: SizingReport) -> Iterator[Row]:
    size = report.checkpoint
    files = f"{counted_text(size.num_files, 'file')}, {size.format}"
    stored = binary_bytes_text(report.stored_bytes)
    kind = LeadingRow if asks_for_size(report) else Row
    row = kind("One checkpoint", decimal_bytes_text(report.stored_bytes), f"{stored}; {files}")
    if report.stored_bytes == size.written_bytes:
        yield roughly(report, row, BYTES)
    else:
        whole = with_range(report, BYTES, decimal_bytes_text(size.written_bytes))
        meaning = f"{stored} as stored, {whole} without the reduction; {files}"
        yield roughly(report, row._replace(meaning=meaning), BYTES, shown=None)
    yield roughly(report, _write(report), *_TIMES["write"])
    restore_seconds = report.restore.seconds
    time = UNKNOWN if restore_seconds is None else seconds_text(restore_seconds)
    yield roughly(report, Row("Restore time", time, restore_text(report)), *_TIMES["read"])
    memory = report.host_memory
    if memory.usable_bytes is None or memory.needed_high_bytes > LEAST_OF_HOST_FRACTION * memory.usable_bytes:
        yield from host_memory_rows(memory)
    yield from (row._replace(label=row.label.capitalize()) for row in written_beside(report))


def _write(report: SizingReport) -> Row:
    write = report.write
    if write is None:
        return Row("Write time", UNKNOWN, write_text(report))
    stall = with_range(report, "write.stall_seconds", seconds_text(write.stall_seconds))
    meaning = write_text(report, beside=f", stalls training for {stall}" if write.drain_seconds else "")
    return Row("Write time", seconds_text(write.seconds), meaning)


def _loss(report: SizingReport) -> Iterator[Row]:
    interval = report.interval
    every = f"every {every_text(interval)}"
    if interval.lost_at_interval_fraction is not None:
        lost = percent_text(interval.lost_at_interval_fraction)
        meaning = f"{every}: {_shares_text(report.shares)}"
        if interval.leaves_out_restore:
            meaning += f"; restore left out: give {' and '.join(missing_read_rates(report.tiers))}"
        meaning += "; relaunch and restore left out" if interval.leaves_out_restart else ""
        row = roughly(report, LeadingRow("Lost time", lost, meaning), LOST)
        yield row._replace(figure=f"{interval.at_least}{row.figure}")
    elif report.overhead.fraction is not None:
        stalled = share_of_interval_text(report.overhead.fraction)
        meaning = f"stalled by saves {every}; for failures give {MTBF}"
        yield roughly(report, LeadingRow("Overhead", stalled, meaning), OVERHEAD)
    else:
        lack = lack_of_calibrated(report, "write")
        given = f"{lack}; it also needs" if lack else "give a storage, and"
        yield Row("Lost time", UNKNOWN, f"{given} {MTBF} or {FAILURES}")
    if interval.lost_at_interval_fraction is not None:
        yield from _best(report)


def _shares_text(shares: Shares) -> str:
    """What the run loses its time to, the most first; all of it where saves take the whole interval."""
    lost = {name: share for name, share in shares.by_name.items() if name != "goodput"}
    if None in lost.values():
        return "a checkpoint takes longer than the interval: training never advances"
    largest_first = sorted(lost.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {percent_text(share)}" for name, share in largest_first)


def _best(report: SizingReport) -> Iterator[Row]:
    """The best interval; no number where failures need the main storage so rarely that other stops decide."""
    interval, label = report.interval, "Best interval"
    period = math.inf if never_needs_storage(report.recovery) else interval.optimal_period_seconds
    if period is not None and period > LONGEST_BEST_SECONDS:
        why = "failures that need the main storage are that rare: take what other stops allow"
        yield LeadingRow(label, f"over {seconds_text(LONGEST_BEST_SECONDS)}", why)
    elif period is not None and interval.goodput_at_optimum_fraction is not None:
        yield roughly(report, LeadingRow(label, seconds_text(period), _best_text(report)), BEST_INTERVAL)


def _best_text(report: SizingReport) -> str:
    interval = report.interval
    lost = f"{interval.at_least}{percent_text(1 - (interval.goodput_at_optimum_fraction or 0.0))}"
    return f"loses {lost} of the time" + (", each tier at its best interval" if report.tiers else "")


def _purchase(report: SizingReport) -> Iterator[Row]:
    yield from _rates_together(report) if report.needed_together else _rates_alone(report)
    capacity = report.capacity
    held = f"min usable {capacity_text(capacity)}"
    if capacity.raw_bytes > capacity.usable_bytes:
        held += f"; {decimal_bytes_text(capacity.raw_bytes)} of raw drives"
    row = LeadingRow("To buy: capacity", decimal_bytes_text(capacity.usable_bytes), held)
    yield roughly(report, row, BYTES, shown=capacity_of_size(report, capacity.usable_bytes))
    if capacity.disk_bytes is not None and capacity.disk_checkpoints is not None:
        holds = f"holds {counted_text(capacity.disk_checkpoints, 'checkpoint')}, {capacity.num_checkpoints:,} must fit"
        if capacity.growth_bytes_per_day:
            full = f"full after {seconds_text(capacity.disk_exceeded_seconds or 0.0)} of training, as kept weights grow"
        else:
            full = f"full after {seconds_text(capacity.disk_full_seconds or 0.0)} of training where none is deleted"
        judgement = "fits" if capacity.fits_disk else "DOES NOT FIT"
        yield Row("Disk", decimal_bytes_text(capacity.disk_bytes), f"{judgement}: {holds}; {full}")
    if report.cost is not None:
        total = UNKNOWN if report.cost.total is None else amount_text(report.cost.total)
        yield roughly(report, Row("Cost", total, cost_text(report.cost)), priced_figure(report.cost), shown=None)


def _rates_together(report: SizingReport) -> Iterator[Row]:
    """A row for each direction, what a node or a writer needs of it beside the file system, and the interval."""
    needed, met = report.needed_together, met_together(report.targets_beyond_storage)
    for direction in DIRECTIONS:
        rates = [(name, rate) for name, rate in needed.items() if name.endswith(f"{direction}_bytes_per_second")]
        if rates:
            (name, rate), *others = sorted(rates, key=lambda named: len(named[0]))
            other_rate = needed.get(profile_path(FILE_SYSTEM, _OTHER[direction]))
            beside = "" if other_rate is None else f"beside {min_rate_text(other_rate)} of {_OTHER[direction]}s it "
            also = "".join(f", {_place(other)} {min_rate_text(value)}" for other, value in others)
            meaning = f"min bandwidth {_place(name)}".rstrip() + f"{also}; {beside}{met}"
            row = LeadingRow(f"To buy: {direction}", min_rate_text(rate), meaning)
            yield roughly(report, row, _NEEDED[direction], *_TIMES[direction], shown=None)
    if INTERVAL in needed:
        yield Row("Interval to take", exact_seconds_text(needed[INTERVAL]), f"{met} with these rates{NOT_AS_ASKED}")


def _place(field: str) -> str:
    """Where a rate is counted: per node or per writer; nothing for that of the file system."""
    return "per node" if "node_" in field else "per writer" if "writer_" in field else ""


def _rates_alone(report: SizingReport) -> Iterator[Row]:
    """The rate of each direction for the targets that it decides alone; goodput is not among them."""
    required = report.required
    if required.write_obstacle is not None:
        yield LeadingRow("To buy: write", "no rate", required.write_obstacle)
    if required.write_bytes_per_second is not None:
        rate = min_rate_text(required.write_bytes_per_second)
        is_missed = any(check.target == "min_goodput_fraction" and check.remedy for check in report.targets)
        goodput = "; for goodput see above" if is_missed else ""
        meaning = f"min bandwidth, for {target_text(report)}{goodput}"
        yield roughly(report, LeadingRow("To buy: write", rate, meaning), _NEEDED["write"])
    if required.restore_bytes_per_second is not None:
        recovery = next(check.wanted for check in report.targets if check.target == "recovery_seconds")
        rate = min_rate_text(required.restore_bytes_per_second)
        meaning = f"min bandwidth, for max recovery {seconds_text(recovery)}"
        yield roughly(report, LeadingRow("To buy: read", rate, meaning), _NEEDED["read"])
