"""What to buy: the rates and the capacity that the targets need, with their price."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.guesses.figures import BYTES, LOST
from sizing.present.guesses import Shown, marked
from sizing.present.rows import UNKNOWN, Row
from sizing.present.targets import met_together
from sizing.printed_numbers import CURRENCY_SIGNS
from sizing.report import SizingReport
from sizing.run.costs import Cost
from sizing.run.remedies import together_text
from sizing.run.retention import Capacity
from sizing.units import bytes_text, decimal_bytes_text, min_rate_text, percent_text, seconds_text

_NO_CENTS = 1000
"""Amounts from which on cents say nothing."""


def required_rows(report: SizingReport) -> Iterator[Row]:
    """Yield the rates and the capacity that the targets need, and their price."""
    if report.needed_together:
        effect = met_together(report.targets_beyond_storage)
        yield Row("together", "", f"{together_text(report.needed_together)}: {effect}")
    required, capacity = report.required, report.capacity
    if required.write_obstacle is not None:
        yield Row("min write bandwidth", "no rate", required.write_obstacle)
    if required.write_bytes_per_second is not None and required.write_per_node_bytes_per_second is not None:
        per_node = min_rate_text(required.write_per_node_bytes_per_second)
        yield Row(
            "min write bandwidth",
            min_rate_text(required.write_bytes_per_second),
            marked(
                report,
                "required.write_bytes_per_second",
                f"for {target_text(report)}; {per_node} per writing node",
            ),
        )
    if required.device_to_host_bytes_per_second is not None:
        copy = min_rate_text(required.device_to_host_bytes_per_second)
        yield Row("min GPU-to-host", copy, "per GPU, for the max stall of the targets")
    if required.restore_bytes_per_second is not None:
        recovery = next(check.wanted for check in report.targets if check.target == "recovery_seconds")
        needed_for = f"for max recovery (RTO) {seconds_text(recovery)}"
        meaning = marked(report, "required.restore_bytes_per_second", needed_for)
        yield Row("min read bandwidth", min_rate_text(required.restore_bytes_per_second), meaning)
    shown = capacity_of_size(report, capacity.usable_bytes)
    held = marked(report, "checkpoint.written_bytes", capacity_text(capacity), shown=shown)
    yield Row("min capacity", bytes_text(capacity.usable_bytes), held)
    if capacity.raw_bytes > capacity.usable_bytes:
        yield Row("drives", bytes_text(capacity.raw_bytes), "raw, with redundancy")
    if report.cost is not None:
        total = report.cost.total
        yield Row(
            "cost",
            UNKNOWN if total is None else amount_text(total),
            marked(
                report,
                priced_figure(report.cost),
                f"{cost_text(report.cost)}, in the currency of the prices",
                shown=None,
            ),
        )


def cost_text(cost: Cost) -> str:
    """Write the parts of a cost, in cents where their sum is."""
    parts = {
        "capacity": cost.capacity,
        "bandwidth": cost.bandwidth,
        "tiers": cost.tiers,
        "lost GPU time": cost.lost_gpu_time,
    }
    known = {name: amount for name, amount in parts.items() if amount is not None}
    total = sum(known.values())
    texts = (f"{name} {amount_text(amount, of=total)}" for name, amount in known.items())
    return ", ".join(texts) or "no priced figure is known"


def capacity_of_size(report: SizingReport, num_bytes: float) -> Shown:
    """Say how a capacity follows from the size of a checkpoint: as a multiple, unless it holds something else too."""
    capacity = report.capacity
    if capacity.exported_bytes or capacity.published_bytes or capacity.kept_weights_bytes or report.reduction:
        return None
    times = num_bytes / report.checkpoint.written_bytes
    return lambda size: times * size


def priced_figure(cost: Cost) -> str:
    """Name the figure that decides the largest part of the cost, by its path in the report: lost time, or bytes."""
    return LOST if (cost.lost_gpu_time or 0.0) >= max(cost.capacity or 0.0, cost.bandwidth or 0.0) else BYTES


def amount_text(amount: float, *, of: float = 0.0) -> str:
    """Write an amount of money, with cents unless it, or the sum that it is a part `of`, is large.

    >>> amount_text(2272.78), amount_text(9.5), amount_text(9.5, of=2282.28)
    ('2,273', '9.50', '10')
    """
    return f"{amount:,.0f}" if max(amount, of) >= _NO_CENTS else f"{amount:,.2f}"


def money_text(amount: float, currency: str) -> str:
    """Write an amount with its currency: after the sign of the currency or, where it has none, before its code.

    >>> money_text(2272.78, "USD"), money_text(9.5, "€"), money_text(2272.78, "CHF")
    ('$2,273', '€9.50', '2,273 CHF')
    """
    sign = CURRENCY_SIGNS.get(currency.upper(), currency if currency in CURRENCY_SIGNS.values() else "")
    return f"{sign}{amount_text(amount)}" if sign else f"{amount_text(amount)} {currency}"


def target_text(report: SizingReport) -> str:
    """Name the target that the required write rate is for."""
    every = seconds_text(report.interval.interval_seconds)
    match report.required.write_target:
        case "max_overhead_fraction":
            return f"max overhead {percent_text(report.overhead.max_overhead_fraction)}, one checkpoint every {every}"
        case "max_stall_seconds":
            wanted = next(check.wanted for check in report.targets if check.target == "max_stall_seconds")
            return f"max stall {seconds_text(wanted)}"
        case "interval_seconds":
            return f"drain before the next save, every {every}"


def capacity_text(capacity: Capacity) -> str:
    """Say what the usable bytes of a capacity are for, and what they leave out."""
    further = decimal_bytes_text(capacity.further_checkpoint_bytes)
    parts = [f"for {capacity.num_checkpoints} checkpoints, one being written", f"each further +{further}"]
    if capacity.num_needed_checkpoints:
        parts.append(f"with up to {capacity.num_needed_checkpoints} older ones that they need")
    if capacity.exported_bytes:
        parts.append(f"with {decimal_bytes_text(capacity.exported_bytes)} of exports")
    if capacity.published_bytes:
        parts.append(f"with {decimal_bytes_text(capacity.published_bytes)} of the newest publication")
    growth = decimal_bytes_text(capacity.growth_bytes_per_day)
    if capacity.kept_weights_bytes:
        parts.append(f"with {decimal_bytes_text(capacity.kept_weights_bytes)} of kept weights, {growth} more per day")
    elif capacity.growth_bytes_per_day:
        parts.append(f"without the {growth} of kept weights that each day adds")
    if capacity.usable_bytes > capacity.capacity_bytes:
        parts.append(f"{decimal_bytes_text(capacity.capacity_bytes)} used, the rest stays free")
    return "; ".join(parts)
