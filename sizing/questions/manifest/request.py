"""Request for the files of a checkpoint: a scenario, and which of the files to list."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from sizing.scenario import REFERENCE_SCENARIO, Scenario
from sizing.strict_model import InputModel

MAX_FILES_LISTED = 10_000
"""Max files in one answer: 1.5 MB of JSON."""

REFERENCE_MANIFEST: dict[str, Any] = {"scenario": REFERENCE_SCENARIO, "max_files": 8}
"""The first files of the published run of 1T."""


class ManifestRequest(InputModel):
    """A scenario, and which files of its checkpoint to list."""

    model_config = ConfigDict(json_schema_extra={"examples": [REFERENCE_MANIFEST]})

    scenario: Scenario = Field(description="What is saved, in which layout; storage and failures do not matter.")
    first: Annotated[int, Field(ge=0)] = Field(
        0, description="Files to pass over, such as `next` of the answer before. Default: 0."
    )
    max_files: Annotated[int, Field(ge=1, le=MAX_FILES_LISTED)] = Field(
        1_000, description="Max files that one answer lists. Default: 1,000."
    )
