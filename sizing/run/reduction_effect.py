"""The `reduction` block of the report: what saves of less than everything save, and where that pays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from sizing.run.checkpoint import Checkpoint
from sizing.run.figures import Figures
from sizing.run.timing import Timing
from sizing.run.workload import Chain, CheckpointWorkload
from sizing.storage.limits import Demand, Direction, transfer
from sizing.storage.profile import StorageProfile
from sizing.storage.transfer import Numbers
from sizing.units import decimal_bytes_text, percent_text, rate_text, seconds_text

_ROUNDING = 1e-9
"""Relative difference of two times up to which they are the same: sums of floats are off by far less."""


class ReductionEffect(Figures):
    """The `reduction` block of the report: saves with `checkpoint.reduction` beside saves of everything."""

    whole_bytes: int = Field(description="Bytes of a save of everything, without the reduction.")
    mean_bytes: int = Field(description="Bytes that a save writes on average, over full, delta and partial ones.")
    largest_bytes: int = Field(
        description="Bytes of the largest save with the reduction: a full one, where there is one, unless deltas are "
        "larger."
    )
    smallest_bytes: int = Field(
        description="Bytes of the smallest save with the reduction: a delta or a partial one, or a full one "
        "where deltas are larger."
    )
    mean_fraction: float = Field(description="Fraction of the bytes that is written: mean_bytes over whole_bytes.")
    whole_write_seconds: float | None = Field(
        description="Seconds that a save of everything takes. Null without a write rate."
    )
    write_seconds: float | None = Field(
        description="Seconds that a save takes with the reduction, as the mean over all saves. "
        "Null without a write rate."
    )
    max_write_seconds: float | None = Field(
        description="Seconds that the largest save takes with the reduction. Null without a write rate."
    )
    packing_seconds: float = Field(
        description="Seconds of write_seconds in which the rank with most bytes compresses, or makes deltas."
    )
    whole_restore_seconds: float | None = Field(
        description="Seconds that a restore takes from a save of everything. Null without a read rate."
    )
    restore_seconds: float | None = Field(
        description="Seconds that a restore takes with the reduction, as the mean over all saves. "
        "Null without a read rate."
    )
    max_restore_seconds: float | None = Field(
        description="Seconds that the longest restore takes, from the last delta of a chain. Null without a read rate."
    )
    unpacking_seconds: float = Field(
        description="Seconds of restore_seconds in which the rank that reads most decompresses, or applies deltas."
    )
    whole_goodput_fraction: float | None = Field(
        description="Fraction of the time that is useful work with saves of everything. "
        "Null without reliability or rates."
    )
    goodput_fraction: float | None = Field(
        description="Fraction of the time that is useful work with the reduction. Null without reliability or rates."
    )
    break_even_write_bytes_per_second: float | None = Field(
        description="Write rate over all nodes below which a save is shorter with the reduction, in bytes per second. "
        "Null where it is so at every rate or at none, and without a write rate."
    )
    break_even_read_bytes_per_second: float | None = Field(
        description="Read rate over all nodes below which a restore is shorter so, in bytes per second. "
        "Null where it is so at every rate or at none, and without a read rate."
    )
    break_even_run_write_bytes_per_second: float | None = Field(
        description="Write rate over all nodes, in bytes per second, below which the run loses less time with the "
        "reduction, to first order; the read rate changes in the same ratio. "
        "Null where it is so at every rate or at none, and without a write rate."
    )
    is_save_shorter: bool | None = Field(
        description="Whether a save is shorter with the reduction, at the rates as given. Null without a write rate."
    )
    is_restore_shorter: bool | None = Field(
        description="Whether a restore is shorter with the reduction, at the rates as given. Null without a read rate."
    )
    pays: bool | None = Field(
        description="Whether the run loses less time with the reduction: by goodput, or by stalls where failures are "
        "not known. Null without a write rate."
    )
    mean_age_of_experts: float = Field(
        description="Saves by which a restored expert is older than the rest of the state, as the mean over experts "
        "and saves. 0 without partial_experts. What they have learned since is lost."
    )


def stored_bytes(written_bytes: int, reduction: ReductionEffect | None) -> int:
    """Return the bytes of one checkpoint as it is stored: with a reduction the largest save, full where there is one.

    Source: definition.

    >>> stored_bytes(14_000, None)
    14000
    """
    return reduction.largest_bytes if reduction else written_bytes


@dataclass(frozen=True, slots=True)
class TransferChange:
    """A transfer with the reduction against one without: shared seconds saved, serial seconds added, at a rate."""

    saved_seconds: Numbers
    added_seconds: Numbers
    bytes_per_second: Numbers

    @property
    def is_shorter(self) -> Numbers:
        """Whether the transfer takes less time with the reduction."""
        return np.greater(self.saved_seconds, self.added_seconds)

    @property
    def break_even_bytes_per_second(self) -> Numbers:
        """The rate at which both are equal: R S / A; no number where there is none.

        R is the rate of the transfer without the reduction, S its shared seconds that are saved, A the serial ones that
        are added: at x times the rates S becomes S / x. Source: `transfer.transfer_seconds`, solved.

        >>> change = TransferChange(saved_seconds=20.0, added_seconds=5.0, bytes_per_second=1e9)
        >>> float(change.break_even_bytes_per_second)
        4000000000.0
        """
        has_one = np.greater(self.saved_seconds, 0) & np.greater(self.added_seconds, 0)
        ratio = np.divide(self.saved_seconds, np.where(has_one, self.added_seconds, 1.0))
        return np.where(has_one, self.bytes_per_second * ratio, np.nan)


def reduction_effect_of(
    less: Timing,
    whole: Timing | None,
    longest: Timing,
    *,
    workload: CheckpointWorkload,
    checkpoint: Checkpoint,
    profile: StorageProfile | None,
) -> ReductionEffect | None:
    """The `reduction` block of the report; None without a reduction.

    `less` times saves with it, `whole` saves without it, and `longest` the longest save and restore.
    """
    if whole is None or workload.whole is None:
        return None
    strategy = checkpoint.restore
    write = _change(profile, [workload.whole.write], [workload.write], "write")
    reads = list(workload.restores[strategy].steps)
    read = _change(profile, list(workload.whole.restores[strategy].steps), reads, "read")
    run = _of_run(write, read, less, checkpoint)
    largest = (workload.longest or workload).written_bytes
    chain, partial = workload.chain, checkpoint.reduction.partial_experts if checkpoint.reduction else None
    age = 0.0
    if partial is not None and workload.num_experts is not None:
        age = mean_age_of_experts(fraction=partial.num_per_save / workload.num_experts, full_every=partial.full_every)
    return ReductionEffect.of(
        whole_bytes=workload.whole.written_bytes,
        mean_bytes=workload.written_bytes,
        largest_bytes=largest,
        smallest_bytes=min(chain.full_bytes, chain.small_bytes) if chain else largest,
        mean_fraction=np.divide(workload.written_bytes, workload.whole.written_bytes),
        whole_write_seconds=whole.save.seconds if whole.save else None,
        write_seconds=less.save.seconds if less.save else None,
        max_write_seconds=longest.save.seconds if longest.save else None,
        packing_seconds=workload.write.compression_seconds,
        whole_restore_seconds=whole.restore.seconds if whole.restore else None,
        restore_seconds=less.restore.seconds if less.restore else None,
        max_restore_seconds=longest.restore.seconds if longest.restore else None,
        unpacking_seconds=sum((step.compression_seconds for step in reads), start=0.0),
        whole_goodput_fraction=whole.goodput_fraction,
        goodput_fraction=less.goodput_fraction,
        break_even_write_bytes_per_second=write.break_even_bytes_per_second if write else None,
        break_even_read_bytes_per_second=read.break_even_bytes_per_second if read else None,
        break_even_run_write_bytes_per_second=run.break_even_bytes_per_second if run else None,
        is_save_shorter=write.is_shorter if write else None,
        is_restore_shorter=read.is_shorter if read else None,
        pays=_pays(less, whole),
        mean_age_of_experts=age,
    )


def mean_age_of_experts(*, fraction: float, full_every: int | None) -> float:
    """Saves by which an expert is older than the newest save, as the mean over experts and saves.

    Of E experts K are saved in turn, f = K/E. Without full saves an expert is 0 to 1/f - 1 saves old: (1/f - 1)/2. Of
    the j saves after a full one, each has brought f of the experts up to date: the mean of min(j, age), where f of the
    experts have each age below m = floor(1/f) and the others, if any, m. That is j (1 - f/2) - j^2 f/2 until j = m,
    and stays so; the mean over j = 0 to k - 1 sums it.
    Source: counting; Cai et al. 2024, arXiv 2408.04307, section 3, sequential selection.

    >>> mean_age_of_experts(fraction=1 / 8, full_every=None), mean_age_of_experts(fraction=0.5, full_every=2)
    (3.5, 0.25)
    """
    if full_every is None:
        return (1.0 / fraction - 1.0) / 2.0
    num_turns = int(1.0 / fraction + 1e-9)
    num_growing = min(full_every - 1, num_turns)
    linear, square = num_growing * (num_growing + 1) / 2, num_growing * (num_growing + 1) * (2 * num_growing + 1) / 6
    growing = linear * (1.0 - fraction / 2.0) - square * fraction / 2.0
    settled = num_turns * (1.0 - fraction / 2.0) - num_turns**2 * fraction / 2.0
    return (growing + (full_every - 1 - num_growing) * settled) / full_every


def reduction_warnings(block: ReductionEffect | None, chain: Chain | None) -> Iterator[str]:
    """What a reader must know of saves that hold less than everything."""
    if block is None:
        return
    if chain is not None and chain.small_bytes > chain.full_bytes:
        delta, full = decimal_bytes_text(float(chain.small_bytes)), decimal_bytes_text(float(chain.full_bytes))
        yield (
            f"A delta takes {delta} and a compressed full save {full}: deltas save nothing. Lower "
            "checkpoint.reduction.delta.fraction, which is of uncompressed bytes, or remove the delta"
        )
    if block.mean_age_of_experts:
        yield (
            f"A restored expert is {block.mean_age_of_experts:.3g} saves older than the rest on average: what it has "
            f"learned since is lost, and no figure here counts that"
        )
    if block.pays is False:
        edge = block.break_even_run_write_bytes_per_second
        below = f"It pays below {rate_text(edge)}" if edge is not None else "It pays at no rate"
        yield f"checkpoint.reduction loses more time than it saves. {below} of write bandwidth, other things equal"


def reduction_text(block: ReductionEffect) -> str:
    """Say in one sentence what saves write.

    >>> known = {"mean_fraction": 0.5, "write_seconds": 3.0, "whole_write_seconds": 6.0}
    >>> reduction_text(ReductionEffect.model_construct(**(dict.fromkeys(ReductionEffect.model_fields) | known)))
    '50.0 % of the bytes, 3.00 s instead of 6.00 s'
    """
    written = f"{percent_text(block.mean_fraction)} of the bytes"
    if block.write_seconds is None or block.whole_write_seconds is None:
        return written
    return f"{written}, {seconds_text(block.write_seconds)} instead of {seconds_text(block.whole_write_seconds)}"


def _change(
    profile: StorageProfile | None, whole: list[Demand], less: list[Demand], direction: Direction
) -> TransferChange | None:
    before = transfer(profile, whole, direction=direction) if profile else None
    after = transfer(profile, less, direction=direction) if profile else None
    if before is None or after is None:
        return None
    return TransferChange(
        _difference(before.shared_seconds, after.shared_seconds),
        _difference(after.serial_seconds, before.serial_seconds),
        np.divide(before.total_bytes, before.shared_seconds),
    )


def _difference(minuend: Numbers, subtrahend: Numbers) -> Numbers:
    """The difference of two times; 0 where only rounding tells them apart."""
    return np.where(np.isclose(minuend, subtrahend, rtol=_ROUNDING, atol=0.0), 0.0, np.subtract(minuend, subtrahend))


def _of_run(
    write: TransferChange | None, read: TransferChange | None, less: Timing, checkpoint: Checkpoint
) -> TransferChange | None:
    """What a second of the run saves and adds, to first order: d/T + (R + D)/M, with a drain as recovery.

    M is between the interruptions that are recovered from the main storage: others neither read from it nor wait for
    its drains.
    """
    if write is None:
        return None
    process = less.process
    per_failure: Numbers = 0.0
    if process is not None:
        recovered = sum((process.levels[index].used_fraction for index in process.main_levels), start=0.0)
        per_failure = np.divide(recovered, process.mtbf_seconds)
    per_save = np.divide(1.0, checkpoint.interval_seconds) if checkpoint.mode == "sync" else per_failure
    reading = (read.saved_seconds, read.added_seconds) if read else (0.0, 0.0)
    return TransferChange(
        per_save * write.saved_seconds + per_failure * reading[0],
        per_save * write.added_seconds + per_failure * reading[1],
        write.bytes_per_second,
    )


def _pays(less: Timing, whole: Timing) -> Numbers | None:
    """Whether the run loses less time with the reduction; None where not known."""
    if less.goodput_fraction is not None and whole.goodput_fraction is not None:
        return np.greater(less.goodput_fraction, whole.goodput_fraction)
    if less.stalled_fraction is None or whole.stalled_fraction is None:
        return None
    return np.less(less.stalled_fraction, whole.stalled_fraction)
