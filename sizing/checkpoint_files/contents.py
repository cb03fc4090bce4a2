"""What an existing checkpoint holds, and what it takes on disk: the result of reading it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from sizing.checkpoint_files.kinds import ADAPTER, Format, Part, SmallState

Held = Literal["weights", "optimizer"] | SmallState


class CheckpointFile(BaseModel):
    """A file of a checkpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="Path in the checkpoint's folder.")
    num_bytes: int = Field(ge=0, description="Size on disk, in bytes.")
    format: Format | Literal["other"] = Field(
        description="Container; other is a file without tensors, such as a config."
    )
    holds: tuple[Held, ...] = Field(
        description="What stands in the file. Of each file of a distributed checkpoint, what stands in any of them."
    )


class TensorTotal(BaseModel):
    """The tensors of one part and dtype, shared data counted once."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    part: Part = Field(description="Part of the state that these tensors belong to.")
    dtype: str = Field(description="Dtype in which the values are stored.")
    num_tensors: int = Field(ge=0, description="Tensors of this part and dtype, shared data counted once.")
    num_parameters: int = Field(ge=0, description="Values that the tensors hold, shared data counted once.")
    tensor_bytes: int = Field(ge=0, description="Bytes of the values, without headers and alignment.")


class CheckpointContents(BaseModel):
    """What a checkpoint holds, read without its data."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Format | Literal["mixed"] = Field(description="Container of the tensors; mixed when there are several.")
    layout: str | None = Field(
        description="Whose checkpoint it is, by its names: a trainer or a framework. Null when the names do not tell."
    )
    flags: str = Field(description="Flags of ckpt-size that choose the framework. Empty when the layout tells none.")
    num_parameters: int | None = Field(
        description="Parameters of the weights, of which copies in the files of several ranks count once. "
        "Null when weights are not stored or cannot be counted."
    )
    disk_bytes: int = Field(description="Bytes that all files take on disk, headers included.")
    tensor_bytes: int = Field(
        description="Bytes of all tensors, shared data counted once; 0 of those whose dtype cannot be read."
    )
    overhead_bytes: int | None = Field(
        description="Bytes of the files beyond the tensors: headers, pickles, alignment; negative when compressed. "
        "Null when files are absent or dtypes cannot be read."
    )
    part_bytes: dict[Part, int] = Field(description="Bytes of tensors by part of the state.")
    small_state_bytes: dict[SmallState, int] = Field(
        description="Bytes of whole files, and of values in distributed files, that hold neither weights nor optimizer."
    )
    num_aliases: int = Field(description="Further names of data that is counted already, such as tied weights.")
    largest_file: CheckpointFile = Field(description="File that takes the max of bytes on disk.")
    tensors: tuple[TensorTotal, ...] = Field(description="Totals by part and dtype.")
    files: tuple[CheckpointFile, ...] = Field(description="Every file of the checkpoint, tensors or not.")
    absent_files: tuple[str, ...] = Field(
        description="Files that the checkpoint's index lists and that its folder lacks."
    )
    notes: tuple[str, ...] = Field(description="What could not be read or counted, in words.")

    @property
    def is_whole(self) -> bool:
        """Whether a run can go on from it: it has the optimizer's moments, and the weights or their fp32 copy."""
        held = {total.part for total in self.tensors}
        return "moments" in held and bool(held & {"weights", "master"})

    @property
    def is_adapter(self) -> bool:
        """Whether its weights are those of an adapter alone, not of the model that it is for."""
        return self.layout == ADAPTER

    @property
    def observed_bytes(self) -> int:
        """The size to plan with: the files, or the tensors where the files are not there."""
        return self.tensor_bytes if self.absent_files else self.disk_bytes
