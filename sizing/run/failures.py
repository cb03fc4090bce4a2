"""The `reliability` block of a Scenario: how often the job is interrupted."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sizing.errors import require_one_of
from sizing.storage.transfer import Numbers
from sizing.units import SECONDS_PER_DAY, SECONDS_PER_HOUR, PositiveSeconds, Seconds

_Rate = Annotated[float, Field(ge=1e-12, le=1e6, allow_inf_nan=False)]
_WAYS = ("failures_per_node_day", "failures_per_gpu_hour", "mtbf_seconds")


class Reliability(BaseModel):
    """How often the job fails: per node and day, per GPU and hour, or its mean time between failures.

    `detection_seconds` pass until the failure is seen, `restart_seconds` from then until training goes on,
    reading the checkpoint included.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    failures_per_node_day: _Rate | None = None
    failures_per_gpu_hour: _Rate | None = None
    mtbf_seconds: PositiveSeconds | None = Field(None, description="of the whole job")
    detection_seconds: Seconds = 0.0
    restart_seconds: Seconds = 0.0

    @model_validator(mode="after")
    def _exactly_one_rate(self) -> Self:
        require_one_of(self, _WAYS)
        return self

    def job_mtbf_seconds(self, *, num_nodes: int, num_gpus: int) -> Numbers:
        """Mean time between failures of a job of that size."""
        if self.mtbf_seconds is not None:
            return self.mtbf_seconds
        if self.failures_per_node_day is not None:
            rate = self.failures_per_node_day / SECONDS_PER_DAY
            return mtbf_seconds(rate, num_components=num_nodes)
        assert self.failures_per_gpu_hour is not None  # noqa: S101  one of the three is given
        return mtbf_seconds(self.failures_per_gpu_hour / SECONDS_PER_HOUR, num_components=num_gpus)


def mtbf_seconds(failures_per_component_second: Numbers, *, num_components: Numbers) -> Numbers:
    """Mean time between failures of n components any of which stops the job: M = 1 / (n r).

    Args: r failures per component and second; n components in series. Returns seconds.
    Source: Kokolis et al. 2024, arXiv 2410.21680, section 4; assumes independent exponential failures.

    >>> round(mtbf_seconds(0.0065 / 86400, num_components=384), 2)
    34615.38
    """
    return 1.0 / (num_components * failures_per_component_second)
