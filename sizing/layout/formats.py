"""Checkpoint formats, each defined by one row: which files, who writes them, who reads them back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FormatName = Literal["megatron"]


@dataclass(frozen=True, slots=True)
class CheckpointFormat:
    """`writers`: the ranks that write a file each. `readers`: the ranks that read such a file back."""

    writers: Literal["model-parallel ranks of replica 0"]
    readers: Literal["the same model-parallel rank of every replica"]
    files_per_writer: int
    file_name: str
    file_name_with_pipeline: str

    def file_pattern(self, *, pipeline: int) -> str:
        """The file name, in which TT stands for the tensor rank and PPP for the pipeline stage."""
        return self.file_name_with_pipeline if pipeline > 1 else self.file_name


FORMATS: dict[FormatName, CheckpointFormat] = {
    "megatron": CheckpointFormat(
        writers="model-parallel ranks of replica 0",
        readers="the same model-parallel rank of every replica",
        files_per_writer=1,
        file_name="mp_rank_TT/model_optim_rng.pt",
        file_name_with_pipeline="mp_rank_TT_PPP/model_optim_rng.pt",
    ),
}
"""Source: Megatron-LM, megatron/training/checkpointing.py, get_checkpoint_name and save_checkpoint."""
