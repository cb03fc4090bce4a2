"""The few figures that a decision is made on: size, write, restore, what the run loses, what to buy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sizing.guesses.figures import BEST_PERIOD, BYTES, LOST, OVERHEAD
from sizing.report import SizingReport
from sizing.run.goodput.shares import Shares
from sizing.run.requirements.asked import INTERVAL
from sizing.run.retention import Capacity
from sizing.storage.rates import DIRECTIONS, Direction
from sizing.summary.beside import written_beside
from sizing.summary.guesses import roughly
from sizing.summary.purchase import amount_text, cost_text, priced_figure, target_text
from sizing.summary.rows import UNKNOWN, Row
from sizing.summary.targets import met_together
from sizing.units import (
    binary_bytes_text,
    counted_text,
    decimal_bytes_text,
    min_rate_text,
    min_seconds_text,
    percent_text,
    rate_text,
    seconds_text,
    share_of_interval_text,
)

_NEEDED: Mapping[Direction, str] = {
    "write": "required.write_bytes_per_second",
    "read": "required.restore_bytes_per_second",
}
"""What to buy in each direction, by its path in the report."""
_TIMES: Mapping[Direction, tuple[str, ...]] = {
    "write": ("write.seconds", "write.stall_seconds"),
    "read": ("restore.seconds",),
}
"""What each direction takes, likewise."""
SHOWN = {BYTES, LOST, OVERHEAD, BEST_PERIOD, *_NEEDED.values(), *(path for times in _TIMES.values() for path in times)}
"""The figures of the rows, by their paths in the report."""


def key_figures(report: SizingReport) -> list[Row]:
    """The few figures that a decision is made on, in the order in which people ask."""
    return [*_checkpoint(report), *_loss(report), *_purchase(report)]


def _checkpoint(report: SizingReport) -> Iterator[Row]:
    size = report.checkpoint
    files = f"{counted_text(size.num_files, 'file')}, {size.format}"
    meaning = f"{binary_bytes_text(size.written_bytes)}; {files}"
    yield roughly(report, Row("One checkpoint", decimal_bytes_text(size.written_bytes), meaning), BYTES)
    yield roughly(report, _write(report), *_TIMES["write"])
    yield roughly(report, _restore(report), *_TIMES["read"])
    yield from (row._replace(label=row.label.capitalize()) for row in written_beside(report))


def _write(report: SizingReport) -> Row:
    write, reduction = report.write, report.reduction
    if write is None:
        return Row("Write time", UNKNOWN, "give --write-bandwidth, --storage or --storage-preset")
    stall = f", stalls training for {seconds_text(write.stall_seconds)}" if write.drain_seconds else ""
    of = f"of {decimal_bytes_text(reduction.mean_bytes)} on average, " if reduction else ""
    meaning = f"{of}at {rate_text(write.bytes_per_second)}{stall}; limit: {write.bottleneck}"
    return Row("Write time", seconds_text(write.seconds), meaning)


def _restore(report: SizingReport) -> Row:
    restore, reduction = report.restore, report.reduction
    read = f"all ranks read {decimal_bytes_text(restore.read_bytes)}"
    if restore.seconds is None or restore.bytes_per_second is None:
        return Row("Restore time", UNKNOWN, f"{read}; give --read-bandwidth or --storage")
    longest = (reduction.max_restore_seconds or 0.0) if reduction else 0.0
    at_most = f"on average, at most {seconds_text(longest)}; " if longest > restore.seconds else ""
    meaning = f"{at_most}{read} at {rate_text(restore.bytes_per_second)}; limit: {restore.bottleneck}"
    return Row("Restore time", seconds_text(restore.seconds), meaning)


def _loss(report: SizingReport) -> Iterator[Row]:
    interval = report.interval
    every = f"every {seconds_text(interval.effective_interval_seconds or interval.interval_seconds)}"
    if interval.lost_at_interval_fraction is not None:
        lost = percent_text(interval.lost_at_interval_fraction)
        meaning = f"{every}: {_shares_text(report.shares)}"
        meaning += "; restore left out: give --read-bandwidth" if interval.leaves_out_restore else ""
        row = roughly(report, Row("Lost time", lost, meaning), LOST)
        yield row._replace(figure=f"{interval.at_least}{row.figure}")
    elif report.overhead.fraction is not None:
        stalled = share_of_interval_text(report.overhead.fraction)
        meaning = f"stalled by saves {every}; for failures give --mtbf"
        yield roughly(report, Row("Overhead", stalled, meaning), OVERHEAD)
    else:
        yield Row("Lost time", UNKNOWN, "give a storage, and --mtbf or --failures-per-node-day")
    if interval.goodput_at_optimum_fraction is not None and interval.optimal_period_seconds is not None:
        best = Row("Best interval", seconds_text(interval.optimal_period_seconds), _best_text(report))
        yield roughly(report, best, BEST_PERIOD)


def _shares_text(shares: Shares) -> str:
    """What the run loses its time to, the most first; all of it where saves take the whole interval."""
    lost = {name: share for name, share in shares.by_name.items() if name != "goodput"}
    if None in lost.values():
        return "a checkpoint takes longer than the interval: training never advances"
    largest_first = sorted(lost.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {percent_text(share)}" for name, share in largest_first)


def _best_text(report: SizingReport) -> str:
    interval = report.interval
    lost = f"{interval.at_least}{percent_text(1 - (interval.goodput_at_optimum_fraction or 0.0))}"
    return f"loses {lost} of the time" + (", each tier at its best interval" if report.tiers else "")


def _purchase(report: SizingReport) -> Iterator[Row]:
    yield from _rates_together(report) if report.needed_together else _rates_alone(report)
    capacity = report.capacity
    held = Row("To buy: capacity", decimal_bytes_text(capacity.usable_bytes), _capacity_text(capacity))
    yield roughly(report, held, BYTES)
    if report.cost is not None:
        total = UNKNOWN if report.cost.total is None else amount_text(report.cost.total)
        yield roughly(report, Row("Cost", total, cost_text(report.cost)), priced_figure(report.cost))


def _rates_together(report: SizingReport) -> Iterator[Row]:
    """A row for each direction, what a node or a writer needs of it beside the file system, and the interval."""
    needed, met = report.needed_together, met_together(report.targets_beyond_storage)
    for direction in DIRECTIONS:
        rates = [(name, rate) for name, rate in needed.items() if name.endswith(f"{direction}_bytes_per_second")]
        if rates:
            (name, rate), *others = sorted(rates, key=lambda named: len(named[0]))
            also = "".join(f", {_place(other)} {min_rate_text(value)}" for other, value in others)
            meaning = f"min bandwidth {_place(name)}".rstrip() + f"{also}; {met}"
            row = Row(f"To buy: {direction}", min_rate_text(rate), meaning)
            yield roughly(report, row, _NEEDED[direction], *_TIMES[direction])
    if INTERVAL in needed:
        yield Row("Interval to take", min_seconds_text(needed[INTERVAL]), f"{met} with these rates")


def _place(field: str) -> str:
    """Where a rate is counted: per node or per writer; nothing for that of the file system."""
    return "per node" if "node_" in field else "per writer" if "writer_" in field else ""


def _rates_alone(report: SizingReport) -> Iterator[Row]:
    """The rate of each direction for the targets that it decides alone; goodput is not among them."""
    required = report.required
    if required.write_bytes_per_second is not None:
        rate = min_rate_text(required.write_bytes_per_second)
        is_missed = any(check.target == "min_goodput_fraction" and check.remedy for check in report.targets)
        goodput = "; for goodput see above" if is_missed else ""
        meaning = f"min bandwidth, for {target_text(report)}{goodput}"
        yield roughly(report, Row("To buy: write", rate, meaning), _NEEDED["write"])
    if required.restore_bytes_per_second is not None:
        recovery = next(check.wanted for check in report.targets if check.target == "recovery_seconds")
        rate = min_rate_text(required.restore_bytes_per_second)
        meaning = f"min bandwidth, for max recovery {seconds_text(recovery)}"
        yield roughly(report, Row("To buy: read", rate, meaning), _NEEDED["read"])


def _capacity_text(capacity: Capacity) -> str:
    """What the usable bytes hold, and the drives behind them where redundancy takes more."""
    further = decimal_bytes_text(capacity.further_checkpoint_bytes)
    held = f"min usable for {capacity.num_checkpoints} checkpoints, one being written; each further +{further}"
    if capacity.num_needed_checkpoints:
        held += f", with up to {capacity.num_needed_checkpoints} older ones that they need"
    if capacity.exported_bytes:
        held += f", and {decimal_bytes_text(capacity.exported_bytes)} of exports"
    if capacity.kept_weights_bytes:
        held += f" and {decimal_bytes_text(capacity.kept_weights_bytes)} of kept weights"
    if capacity.usable_bytes > capacity.capacity_bytes:
        held += f"; {decimal_bytes_text(capacity.capacity_bytes)} used, the rest stays free"
    if capacity.raw_bytes > capacity.usable_bytes:
        held += f"; {decimal_bytes_text(capacity.raw_bytes)} of raw drives"
    return held
