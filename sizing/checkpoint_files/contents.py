"""Contents and disk size of an existing checkpoint: the result of reading it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sizing.strict_model import StrictModel

Format = Literal["safetensors", "torch-dcp", "torch-save", "orbax"]

Part = Literal["weights", "master", "moments", "other"]
PARTS: tuple[Part, ...] = ("weights", "master", "moments", "other")

SmallState = Literal["random state", "scheduler", "data loader", "settings"]
SMALL_STATES: tuple[SmallState, ...] = ("random state", "scheduler", "data loader", "settings")

ADAPTER = "PEFT adapter"
"""Layout of a checkpoint that has only the weights of an adapter."""

FRAMEWORK = "training.framework"
FORMAT = "checkpoint.format"
"""Scenario fields that `CheckpointContents.fields` sets if file names tell their values."""

Degree = Literal["tensor", "pipeline", "data"]

Held = Literal["weights", "optimizer"] | SmallState


class CheckpointFile(StrictModel):
    """A file of a checkpoint."""

    name: str = Field(description="Path in the checkpoint's folder.")
    num_bytes: int = Field(ge=0, description="Size on disk, in bytes.")
    format: Format | Literal["other"] = Field(
        description="Container; other is a file without tensors, such as a config."
    )
    holds: tuple[Held, ...] = Field(
        description="What stands in the file. Of each file of a distributed checkpoint, what stands in any of them. "
        "Empty where no known trainer or framework writes such a file: its bytes are not counted."
    )


class TensorTotal(StrictModel):
    """The tensors of one part and dtype, shared data counted once."""

    part: Part = Field(description="Part of the state that these tensors belong to.")
    dtype: str = Field(description="Dtype in which the values are stored.")
    num_tensors: int = Field(ge=0, description="Tensors of this part and dtype, shared data counted once.")
    num_parameters: int = Field(ge=0, description="Values that the tensors hold, shared data counted once.")
    tensor_bytes: int = Field(ge=0, description="Bytes of the values, without headers and alignment.")


class CheckpointContents(StrictModel):
    """What a checkpoint holds, read without its data."""

    format: Format | Literal["mixed"] = Field(description="Container of the tensors; mixed when there are several.")
    layout: str | None = Field(
        description="Whose checkpoint it is, by its names: a trainer or a framework. Null when the names do not tell."
    )
    fields: dict[str, str] = Field(
        description="Scenario fields that choose framework and format, by dotted path. Empty when the layout tells "
        "none."
    )
    flags: str = Field(description="The same as flags of ckpt-size. Empty when the layout tells none.")
    degrees: dict[Degree, int] = Field(
        description="Ranks that wrote it by parallel degree, as names and contents of files tell. Degrees of 1 are "
        "left out; ranks of torch DCP and Orbax count as data-parallel ones."
    )
    optimizer: str | None = Field(
        description="Optimizer whose statistics and settings the checkpoint holds, as training.optimizer calls it. "
        "Null when they do not tell."
    )
    num_parameters: int | None = Field(
        description="Parameters of the weights, of which copies in the files of several ranks count once. "
        "Null when weights are not stored, cannot be counted, or are in files that are missing."
    )
    disk_bytes: int = Field(description="Bytes that the checkpoint's files take on disk, headers included.")
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
    missing_files: tuple[str, ...] = Field(
        description="Files that the run must have saved, by the names and contents of others and by other saves beside "
        "it, and that are not there."
    )
    notes: tuple[str, ...] = Field(description="What could not be read or counted, in words.")

    @property
    def is_whole(self) -> bool:
        """Whether a run can resume from it: it has the optimizer's state, and the weights or their fp32 copy.

        An optimizer without moments, such as SGD without momentum, saves its settings only.
        """
        held = {total.part for total in self.tensors}
        has_optimizer = "moments" in held or self.optimizer is not None
        return has_optimizer and bool(held & {"weights", "master"}) and not self.missing_files

    @property
    def lacks_weights(self) -> bool:
        """Whether the weights there are not counted, as others may be in files that are missing."""
        has_weights = any(total.part == "weights" for total in self.tensors)
        return has_weights and self.num_parameters is None and bool(self.missing_files)

    @property
    def is_adapter(self) -> bool:
        """Whether it has the weights of an adapter, without those of the base model."""
        return self.layout == ADAPTER

    @property
    def observed_bytes(self) -> int:
        """Size to plan with: that of the files, or of the tensors if files are absent."""
        return self.tensor_bytes if self.absent_files else self.disk_bytes
