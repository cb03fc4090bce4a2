"""Evidence that storage gave back other bytes than it was given, as result documents keep it."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from sizing.storage.measured_list import MeasuredList

_Count = Annotated[int, Field(ge=0)]
_Name = Annotated[str, Field(max_length=4_096)]
_Hex = Annotated[str, Field(pattern=r"^[0-9a-f]*$", max_length=64)]


class Corruption(BaseModel):
    """One tensor that was restored with other bytes than were written, or files that could not be read back."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    repetition: _Count = Field(description="Repetition, counted from 1; 0 is the warm-up.")
    rank: _Count = Field(description="Rank that restored the data.")
    title: _Name = Field(description="That rank in words: its number, its host, and its node where hosts share a name.")
    files: MeasuredList[_Name] = Field(description="Files that it restored from; they are kept where they are.")
    problem: str | None = Field(
        None, description="Error that reading them gave. Null when they could be read and only bytes differ."
    )
    tensor: _Name | None = Field(None, description="Tensor with wrong bytes. Null when none could be told.")
    tensor_bytes: _Count | None = Field(None, description="Bytes of that tensor. Null when none could be told.")
    first_byte: _Count | None = Field(
        None, description="Offset in bytes of the first wrong byte in the tensor. Null when none could be told."
    )
    last_byte: _Count | None = Field(
        None, description="Offset in bytes of the last wrong byte in the tensor. Null when none could be told."
    )
    num_wrong_bytes: _Count | None = Field(
        None, description="Number of wrong bytes in the tensor. Null when none could be told."
    )
    expected: _Hex | None = Field(
        None, description="Bytes that were written, in hexadecimal, from the first wrong one on. Null when not known."
    )
    found: _Hex | None = Field(
        None, description="Bytes that were restored, in hexadecimal, from the first wrong one on. Null when not known."
    )

    @property
    def sentence(self) -> str:
        """What happened, where, and what became of the files."""
        when = f"in repetition {self.repetition}" if self.repetition else "in the warm-up"
        where = ", ".join(self.files)
        kept = f"Kept as evidence: {where}."
        details = f": {self._details}" if self.tensor else ""
        if self.problem:
            return f"{self.problem.rstrip('.')}, as {self.title} found {when}{details}. {kept}"
        return (
            f"Verification failed: the data that rank {self.rank} restored from {where} differs from the data written, "
            f"as {self.title} found {when}{details}. Do not use this storage for checkpoints. {kept}"
        )

    @property
    def _details(self) -> str:
        return (
            f"{self.num_wrong_bytes:,} wrong byte(s) in {self.tensor}, from byte {self.first_byte:,} to "
            f"{self.last_byte:,} of {self.tensor_bytes:,}, {self.expected} expected and {self.found} found"
        )
