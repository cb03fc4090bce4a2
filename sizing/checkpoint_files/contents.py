"""What an existing checkpoint holds, and what it takes on disk: the result of reading it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from sizing.checkpoint_files.container import Format
from sizing.checkpoint_files.parts import Part


class CheckpointFile(BaseModel):
    """A file of a checkpoint; `format` is `other` for files beside the tensors, such as a config."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    num_bytes: int = Field(ge=0)
    format: Format | Literal["other"]


class TensorTotal(BaseModel):
    """The tensors of one part and dtype, shared data counted once."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    part: Part
    dtype: str
    num_tensors: int = Field(ge=0)
    num_parameters: int = Field(ge=0)
    tensor_bytes: int = Field(ge=0)


class CheckpointContents(BaseModel):
    """What a checkpoint holds, read without its data.

    `num_parameters` are those of the weights, None where they are not stored or cannot be counted.
    `overhead_bytes` are what the files take beyond the tensors: headers, pickles, alignment, other files;
    negative where the files are compressed, None where `absent_files` are named but not there. `num_aliases`
    are further names of data that is counted already (tied weights).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Format | Literal["mixed"]
    num_parameters: int | None
    disk_bytes: int
    tensor_bytes: int
    overhead_bytes: int | None
    part_bytes: dict[Part, int]
    num_aliases: int
    largest_file: CheckpointFile
    tensors: tuple[TensorTotal, ...]
    files: tuple[CheckpointFile, ...]
    absent_files: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def observed_bytes(self) -> int:
        """The size to plan with: the files, or the tensors where the files are not there."""
        return self.tensor_bytes if self.absent_files else self.disk_bytes
