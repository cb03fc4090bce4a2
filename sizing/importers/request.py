"""A request to read config files as a scenario."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from sizing.config_files.source import ConfigText
from sizing.strict_model import InputModel

REFERENCE_IMPORT: dict[str, Any] = {
    "files": [
        {
            "name": "train.toml",
            "content": '[model]\nname = "llama3"\nflavor = "70B"\n[parallelism]\ntensor_parallel_degree = 8\n'
            '[checkpoint]\nenable = true\ninterval = 500\nasync_mode = "async"\n',
        }
    ],
    "num_gpus": 64,
}
"""Example: torchtitan's TOML of a model with 70 billion parameters."""


class ImportRequest(InputModel):
    """Config files that belong to one training."""

    model_config = ConfigDict(json_schema_extra={"examples": [REFERENCE_IMPORT]})

    files: Annotated[list[ConfigText], Field(min_length=1, max_length=20)] = Field(
        description="The files: a config, what it refers to (DeepSpeed's JSON, a config.json), its launch script."
    )
    num_gpus: Annotated[int, Field(ge=1, le=10_000_000)] | None = Field(
        None, description="GPUs of the training, where no file says it. Default: what the launch script starts."
    )
    given: tuple[str, ...] = Field(
        (),
        max_length=200,
        description="Dotted paths of fields that are given beside the files, so that they are not asked for.",
    )
