"""Failure rates as operators published them: data with a source per entry, read from `failure_rates.toml`."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from sizing.catalog_file import CatalogEntry, entries, entry_named
from sizing.storage.transfer import Numbers
from sizing.strict_model import StrictModel
from sizing.units import SECONDS_PER_DAY, seconds_text

GPUS_PER_NODE = 8
"""GPUs in a node of every cluster whose rate is published; the rate of a node with more or fewer is taken per GPU."""

MUCH_SMALLER = 2
"""How many times smaller than the jobs of a rate a job is when the rate is doubted. A choice."""


class ObservedMttf(StrictModel):
    """The time between failures that jobs of one size were seen to have."""

    job_gpus: Annotated[int, Field(ge=1)] = Field(description="GPUs of each of those jobs.")
    mttf_seconds: Annotated[float, Field(gt=0)] = Field(description="Mean seconds to a failure, as measured.")


class PublishedRate(CatalogEntry):
    """A published failure rate, and of which jobs it is."""

    counts: str = Field(description="Kind of event that was counted, and over which time.")
    gpu: str = Field(description="Model of the GPUs that were watched, such as H100.")
    num_gpus: Annotated[int, Field(ge=1)] = Field(description="GPUs of the cluster or job that was watched.")
    failures_per_node_day: Annotated[float, Field(gt=0)] = Field(
        description="Mean failures per node and day, for nodes of 8 GPUs."
    )
    from_job_gpus: Annotated[int, Field(ge=1)] = Field(
        description="GPUs of the smallest jobs that the source takes the rate for; of the cluster where it names none."
    )
    observed: tuple[ObservedMttf, ...] = Field(
        (), description="What jobs of other sizes were seen to have on that cluster. Default: not published."
    )

    def job_mtbf_seconds(self, *, num_gpus: Numbers) -> Numbers:
        """Mean time between failures of a job by its GPUs: M = 8 / (g r).

        Args: g GPUs, r failures per second of a node of 8.
        Source: Kokolis et al. 2024, arXiv 2410.21680, section 4; assumes independent exponential failures.

        >>> round(published_rates()["rsc-1"].job_mtbf_seconds(num_gpus=1024) / 3600, 1)
        28.8
        """
        return GPUS_PER_NODE * SECONDS_PER_DAY / (num_gpus * self.failures_per_node_day)


@functools.cache
def published_rates() -> dict[str, PublishedRate]:
    """Every published rate by name."""
    return entries(PublishedRate, package=__package__, file="failure_rates.toml")


def rate_named(name: str) -> PublishedRate:
    """The published rate of that name.

    Raises InvalidInput, with the nearest names, where there is none.
    """
    return entry_named(name, published_rates(), field="reliability.preset")


def rate_warnings(name: str, *, num_gpus: int) -> Iterator[str]:
    """Warn where a rate of large jobs is taken for a small one, with what small jobs were seen to have.

    Of another cluster where that is not published of the cluster of the rate.
    """
    rate = rate_named(name)
    if num_gpus * MUCH_SMALLER > rate.from_job_gpus:
        return
    watched = rate if rate.observed else next(other for other in published_rates().values() if other.observed)
    times = [
        f"at {jobs.job_gpus:,} GPUs once in {seconds_text(jobs.mttf_seconds)}, where the rate gives "
        f"{seconds_text(float(watched.job_mtbf_seconds(num_gpus=jobs.job_gpus)))}"
        for jobs in watched.observed
    ]
    yield (
        f"reliability.preset {rate.name} is the rate of jobs from {rate.from_job_gpus:,} GPUs on, and this one has "
        f"{num_gpus:,}. Small jobs may fail more often: on {watched.name} they did, {'; '.join(times)}"
    )
