"""The `simulation` answer: the goodput by formula beside that of a Monte Carlo of the same run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field

from sizing.errors import InvalidInput
from sizing.run.checkpoint import ROUNDING
from sizing.run.evaluation import RunFigures
from sizing.run.failure_process import FailureProcess, Shares
from sizing.run.levels import Level
from sizing.run.monte_carlo import SimulatedRuns, simulate, simulate_groups
from sizing.run.tier_rows import missing_read_rates
from sizing.storage.transfer import Floats
from sizing.strict_model import InputModel, StrictModel
from sizing.units import SECONDS_PER_DAY, PositiveSeconds, seconds_text

MAX_FAILURES = 200_000_000
"""Half a minute of one core, at 0.11 us each."""
RUNS_PER_BLOCK = 8192
"""Runs that share random numbers. Their arrays fit the cache of a core: a failure takes 0.35 us, of 1,000 runs 0.55 us,
of 65,536 runs 0.46 us."""
NUM_BINS = 12
"""Rows of a table that show the shape of 10,000 runs."""
CONFIDENCE = 0.95
"""How often intervals of probabilities hold them, as is usual."""


class SimulationRequest(InputModel):
    """How many runs to simulate, how long at least, and the seed of their failures."""

    num_runs: Annotated[int, Field(ge=100, le=1_000_000)] = Field(
        10_000, description="How many times the run is simulated, each with failures of its own."
    )
    run_seconds: PositiveSeconds = Field(
        30.0 * SECONDS_PER_DAY,
        description="Min seconds that each run lasts; it ends with the first recovery after that.",
    )
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = Field(
        1, description="Start of the random numbers; equal seeds give equal answers."
    )


class Bin(StrictModel):
    """Runs whose goodput lies between two fractions."""

    from_fraction: float = Field(description="Goodput at the lower edge, as a fraction; included.")
    to_fraction: float = Field(description="Goodput at the upper edge, as a fraction; included in the last bin only.")
    num_runs: int = Field(description="Simulated runs whose goodput lies between the edges.")


class ProbabilityInterval(StrictModel):
    """Ends between which a probability lies in at least 95 of 100 cases, as far as the chance of the trials goes."""

    low: float = Field(description="Lower end of the 95 % interval, as a fraction.")
    high: float = Field(description="Upper end of the 95 % interval, as a fraction.")


def proportion_interval(num_met: int, num_trials: int) -> ProbabilityInterval:
    """Exact 95 % interval of a probability, of which k of n trials are met.

    I(k, n - k + 1; low) = 0.025 and I(k + 1, n - k; high) = 0.975, where I(a, b; p) is the regularized incomplete beta
    function; the lower end is 0 where k is 0, the upper end 1 where k is n.
    Source: Clopper and Pearson 1934, Biometrika 26(4), pages 404 to 413. Assumes independent trials. It covers the
    probability at least as often as it says, however small that is.

    >>> round(proportion_interval(0, 10).high, 4)  # 1 - 0.025^(1 / 10)
    0.3085
    """
    from scipy.special import betaincinv  # noqa: PLC0415 - only odds need it

    beyond, missed = (1 - CONFIDENCE) / 2, num_trials - num_met
    return ProbabilityInterval(
        low=float(betaincinv(num_met, missed + 1, beyond)) if num_met else 0.0,
        high=float(betaincinv(num_met + 1, missed, 1 - beyond)) if missed else 1.0,
    )


class GoodputTargetOdds(StrictModel):
    """How often luck lets a run meet the target of its goodput."""

    min_goodput_fraction: float = Field(
        description="The scenario's targets.min_goodput_fraction, as a fraction of the time."
    )
    num_met: int = Field(description="Simulated runs whose goodput is at least that.")
    met_probability: float = Field(
        description="Probability that a run of run_seconds meets it, as a fraction of the runs; at most that where "
        "leaves_out_restore."
    )
    met_interval: ProbabilityInterval = Field(
        description="Exact 95 % interval of that probability, for the chance of the simulated runs alone."
    )

    @classmethod
    def of(cls, min_goodput_fraction: float, run_goodput_fractions: Floats) -> GoodputTargetOdds:
        """Count the runs that meet the target, and say how far chance may have moved their share."""
        num_runs, num_met = len(run_goodput_fractions), int(np.sum(run_goodput_fractions >= min_goodput_fraction))
        return cls(
            min_goodput_fraction=min_goodput_fraction,
            num_met=num_met,
            met_probability=num_met / num_runs,
            met_interval=proportion_interval(num_met, num_runs),
        )


class SimulationReport(StrictModel):
    """What the runs did, and what the formula says."""

    num_runs: int = Field(description="How many times the run was simulated.")
    run_seconds: float = Field(description="Min seconds that each run lasted.")
    mean_run_seconds: float = Field(
        description="Mean seconds that the runs lasted, each to the first recovery after run_seconds: long beyond it "
        "where failures are rare. Counts per run are of this time."
    )
    seed: int = Field(description="Start of the random numbers.")
    mtbf_seconds: float = Field(description="Mean seconds between failures of the whole job (MTBF).")
    mean_failures: float = Field(description="Mean number of failures that strike one run.")
    mean_restores: float = Field(
        description="Mean number of times that one run begins to read the main storage, after failures and preemptions."
    )
    goodput_fraction: float = Field(
        description="Fraction of the time that was useful work (goodput, ETTR), over all runs together."
    )
    standard_error_fraction: float = Field(description="Standard error of goodput_fraction, as a fraction of the time.")
    formula_goodput_fraction: float = Field(
        description="Goodput by the formula for the same intervals, as a fraction of the time."
    )
    difference_in_standard_errors: float = Field(
        description="Simulated goodput less the formula's, in standard errors; within 3 they agree."
    )
    shares: Shares = Field(description="Where the wall time of all runs together went.")
    formula_shares: Shares = Field(description="Where the wall time goes by the formula, for the same intervals.")
    p5_goodput_fraction: float = Field(
        description="Goodput that 5 in 100 runs stay below, as a fraction of run_seconds."
    )
    p50_goodput_fraction: float = Field(description="Goodput of the median run, as a fraction of run_seconds.")
    p95_goodput_fraction: float = Field(
        description="Goodput that 95 in 100 runs stay below, as a fraction of run_seconds."
    )
    histogram: list[Bin] = Field(description="Runs by goodput, which shows how far luck alone spreads equal runs.")
    goodput_target: GoodputTargetOdds | None = Field(
        None, description="Odds of the target of goodput. Null where the scenario has none."
    )
    leaves_out_restore: bool = Field(
        False,
        description="Whether recoveries go without the time of a restore, which is not known: goodput is at most that.",
    )
    notes: list[str] = Field(
        description="Where the simulated run differs from the one asked for, such as a lengthened interval."
    )


def simulation_report(run: RunFigures, request: SimulationRequest) -> SimulationReport:
    """Simulate the run of one answer.

    Raises InvalidInput where write times or failures are not known, or where the failures are too many.
    """
    process = failure_process_to_simulate(run, request)
    return report_runs(run, request, simulate_runs(process, request, range(request.num_runs)))


def report_runs(run: RunFigures, request: SimulationRequest, runs: SimulatedRuns) -> SimulationReport:
    """Report what became of all runs that were simulated of one answer. Raises as `simulation_report`."""
    process, mtbf = failure_process_to_simulate(run, request), run.report.interval.mtbf_seconds or 0.0
    formula = float(process.goodput_fraction)
    low, median, high = np.quantile(runs.run_goodput_fractions, (0.05, 0.5, 0.95))
    error = runs.standard_error_fraction
    wanted = next((each.wanted for each in run.report.targets if each.target == "min_goodput_fraction"), None)
    counts, edges = np.histogram(runs.run_goodput_fractions, bins=NUM_BINS)
    return SimulationReport(
        num_runs=request.num_runs,
        run_seconds=request.run_seconds,
        mean_run_seconds=float(runs.wall_seconds.mean()),
        seed=request.seed,
        mtbf_seconds=mtbf,
        mean_failures=float(runs.num_failures.mean()),
        mean_restores=float(runs.num_reads[list(process.main_levels)].sum(axis=0).mean()),
        goodput_fraction=runs.goodput_fraction,
        standard_error_fraction=error,
        formula_goodput_fraction=formula,
        difference_in_standard_errors=(runs.goodput_fraction - formula) / error if error else 0.0,
        shares=runs.shares,
        formula_shares=process.shares,
        p5_goodput_fraction=float(low),
        p50_goodput_fraction=float(median),
        p95_goodput_fraction=float(high),
        histogram=[
            Bin(from_fraction=float(start), to_fraction=float(end), num_runs=int(count))
            for start, end, count in zip(edges, edges[1:], counts, strict=False)
        ],
        goodput_target=None if wanted is None else GoodputTargetOdds.of(wanted, runs.run_goodput_fractions),
        leaves_out_restore=run.report.interval.leaves_out_restore,
        notes=list(_notes(run)),
    )


def with_whole_multiples(levels: Sequence[Level]) -> list[Level]:
    """The levels with each interval lengthened to a whole multiple of that of the level before.

    Only behind a tier that is held up by its own drain they are not so already.
    """
    whole = [levels[0]]
    for level in levels[1:]:
        before = float(whole[-1].interval_seconds)
        multiple = np.ceil(float(level.interval_seconds) / before * (1 - ROUNDING))
        whole.append(replace(level, interval_seconds=float(multiple) * before))
    return whole


def failure_process_to_simulate(run: RunFigures, request: SimulationRequest) -> FailureProcess:
    """The failure process of the run, with intervals that are whole multiples. Raises as `simulation_report`."""
    if run.process is None:
        has_write_rate = run.report.write is not None
        raise InvalidInput.of(
            "the scenario",
            f"must have a {'failure rate' if has_write_rate else 'write bandwidth'} to be simulated",
            value=None,
            remedy="give reliability.mtbf_seconds or reliability.failures_per_node_day"
            if has_write_rate
            else "give storage.profile.write_bytes_per_second or a storage",
        )
    failures = request.num_runs * failures_per_run(request.run_seconds, float(run.process.mtbf_seconds))
    if failures > MAX_FAILURES:
        raise InvalidInput.of(
            "the simulation",
            f"must have at most {MAX_FAILURES:,} failures in all runs",
            value=f"about {failures:,.0f}",
            remedy="lower num_runs or run_seconds",
        )
    return replace(run.process, levels=with_whole_multiples(run.process.levels))


def failures_per_run(run_seconds: float, mtbf_seconds: float) -> float:
    """Failures that strike a simulated run on average, the one that ends it included: run_seconds / MTBF + 1.

    Source: Wald's identity, as the simulation has it.

    >>> failures_per_run(36_000.0, 3_600.0)
    11.0
    """
    return run_seconds / mtbf_seconds + 1


def simulate_runs(
    process: FailureProcess,
    request: SimulationRequest,
    numbers: range,
    progress: Callable[[float], None] | None = None,
) -> SimulatedRuns:
    """Simulate the runs of these numbers, from the begin of a block to the end of one or to the last run.

    Each block has random numbers of its own, so that its runs are the same whoever simulates the others: those of the
    first are the seed's, those of the others what `SeedSequence.spawn` makes of it.
    """
    blocks = range(0, len(numbers), RUNS_PER_BLOCK)

    def simulate_block(start: int) -> SimulatedRuns:
        block = numbers[start : start + RUNS_PER_BLOCK]
        lasting, num_runs = request.run_seconds, len(block)
        number = block.start // RUNS_PER_BLOCK
        seed = np.random.SeedSequence(request.seed, spawn_key=(number,) if number else ())

        def hear(fraction: float) -> None:
            if progress is not None:
                progress((start + fraction * num_runs) / len(numbers))

        if process.groups is not None:
            return simulate_groups(
                process, process.groups, run_seconds=lasting, num_runs=num_runs, seed=seed, progress=hear
            )
        lacks = process.pool is not None or process.preempted_levels
        return simulate(
            process.levels,
            mtbf_seconds=float(process.mtbf_seconds),
            run_seconds=lasting,
            num_runs=num_runs,
            seed=seed,
            outages_of=process if lacks else None,
            progress=hear,
        )

    return SimulatedRuns.join([simulate_block(start) for start in blocks])


def _notes(run: RunFigures) -> Iterator[str]:
    """Say where the simulated run differs from the one asked for."""
    if run.report.interval.leaves_out_restore:
        yield (
            "No read bandwidth given: recoveries leave out the restore, so goodput is at most that. Give "
            f"{' and '.join(missing_read_rates(run.report.tiers))}, or reliability.restart_seconds"
        )
    for level, simulated in zip(run.levels, with_whole_multiples(run.levels), strict=True):
        given, effective = float(level.given_interval_seconds), float(simulated.interval_seconds)
        if effective > given * (1 + ROUNDING):
            yield (
                f"The interval of {seconds_text(given)} was raised to {seconds_text(effective)}, as saves must drain "
                "before the next ones"
            )
