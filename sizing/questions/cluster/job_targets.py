"""Targets that the scenarios of the jobs state, held against what the jobs get beside each other."""

from __future__ import annotations

from sizing.questions.cluster.load import JobLoad
from sizing.questions.cluster.report import JobFigures, JobTarget
from sizing.run.targets import check_targets


def check_job_targets(load: JobLoad, job: JobFigures) -> list[JobTarget]:
    """Check the targets that a group's scenario states; the default of max_overhead_fraction is not one of them.

    A figure is that of the job alone, from its own answer, and what the simulation adds to it: to the stall the p99
    beyond that alone, to the overhead the mean stall beyond that alone over the interval. Goodput loses what the other
    jobs cost; the time of a recovery is that of the job alone. All are in seconds or fractions of the time.
    """
    stalls, alone = job.simulated_stalls, {check.target: check.found for check in load.report.targets}
    further = dict.fromkeys(alone, 0.0)
    if stalls is not None:
        further["max_stall_seconds"] = max(0.0, stalls.p99_seconds - job.stall_alone_seconds)
        longer = max(0.0, stalls.mean_seconds - job.stall_alone_seconds)
        further["max_overhead_fraction"] = longer / job.interval_seconds
    if job.simulated_goodput_alone_fraction is not None:
        cost = max(0.0, job.simulated_goodput_alone_fraction - job.simulated_goodput_fraction)
        further["min_goodput_fraction"] = -cost
    targets = load.group.scenario.targets
    among_others = {
        name: None if found is None else found + further[name]
        for name, found in alone.items()
        if name in targets.model_fields_set
    }
    bounded = ("min_goodput_fraction",) if load.report.interval.leaves_out_restore else ()
    return [
        JobTarget(target=check.target, wanted=check.wanted, found=check.found, met=check.met)
        for check in check_targets(targets, among_others, bounded=bounded)
    ]
