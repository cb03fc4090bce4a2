"""What a token, a job, a report and a limit may be, for programs that exchange no documents.

The documents describe scenarios and results, whose types take half a second to load; commands at the terminal of a
service need none of them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from sizing.strict_model import InputModel
from sizing.units import PositiveSeconds

ReportForm = Literal["json", "html", "pdf", "presentation", "csv"]
"""Format of the report of a saved scenario."""

JobState = Literal["queued", "running", "done", "failed", "cancelled", "interrupted"]
"""State of a question that is answered later.

It is `interrupted` where the process that answered it is gone, and was of a version that stored no question.
"""

TokenScope = Literal["read", "publish-only", "publish", "write", "admin"]
"""What a token allows: `read` what is stored, `publish-only` benchmark runs, `publish` both, `write` anything and
delete what it saved, `admin` also to delete what others saved and to read the audit log."""

DEFAULT_MAX_RESULT_BYTES = 16 * 1024**2
"""Max size of a result document, uncompressed, unless the service is set up otherwise: 1,024 ranks in ten repetitions,
written and restored, take 250 kB."""

MAX_KEPT_RUNS = 10_000_000
"""Max runs that retention may keep of one storage system: one a minute for 20 years."""


class RunRetention(InputModel):
    """How long the runs of a storage system are kept. Those that a stored calibration rests on stay in any case."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"max_age_seconds": 63_072_000, "max_runs": None}]})

    max_age_seconds: PositiveSeconds | None = Field(
        None, description="Seconds from the publication of a run until it is deleted, such as 2y. Default: it is kept."
    )
    max_runs: Annotated[int, Field(ge=1, le=MAX_KEPT_RUNS)] | None = Field(
        None, description="Max runs that are kept, the newest. Default: all."
    )
