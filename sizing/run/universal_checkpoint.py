"""A universal checkpoint of DeepSpeed: a folder for each parameter, made of the files of all ranks by another job."""

from __future__ import annotations

from dataclasses import dataclass

from sizing.errors import InvalidInput
from sizing.frameworks import FRAMEWORKS
from sizing.layout import CheckpointLayout, Parallelism
from sizing.layout.files import WEIGHTS, count_files
from sizing.layout.sharding import ZERO_STAGE_OF_WEIGHTS, zero_shards_optimizer, zero_stage_of
from sizing.model.inventory import Inventory
from sizing.state import Training

NUM_EXTRACTING, NUM_MERGING = 4, 2
"""Processes that cut the optimizer's files into pieces of parameters, and that join these. Source: DeepSpeed 0.19,
checkpoint/ds_to_universal.py, num_extract_workers and num_merge_workers."""

_FIELD = "checkpoint.export.format"
_STATES, _BYTES_PER_VALUE = 3, 4
"""fp32.pt, exp_avg.pt and exp_avg_sq.pt, each in fp32."""


@dataclass(frozen=True, slots=True)
class Universal:
    """What `ds_to_universal` writes: `state_bytes` of parameters, `copied_bytes` of other files, both in `num_files`.

    Until it ends, its folder `tmp` holds the state once more in `num_working_files`.
    """

    state_bytes: int
    copied_bytes: int
    num_files: int
    num_working_files: int

    @property
    def num_bytes(self) -> int:
        """Bytes of all files that stay."""
        return self.state_bytes + self.copied_bytes


def universal_of(
    inventory: Inventory, checkpoint_layout: CheckpointLayout, training: Training, parallelism: Parallelism
) -> Universal:
    """Count the files and bytes of a universal checkpoint.

    Of each parameter fp32.pt, exp_avg.pt and exp_avg_sq.pt, with ZeRO 1 and 2 step.pt too; of a frozen one and of a
    second name of tied weights fp32.pt alone; optimizer_state.pt, which with ZeRO 3 holds the share of data rank 0;
    and copies of the files of model states, of which a pipeline's have no weights.
    Source: DeepSpeed 0.19, checkpoint/ds_to_universal.py, main. Raises InvalidInput where it cannot convert.
    """
    _check(training, parallelism)
    has_zero_3 = zero_stage_of(parallelism) >= ZERO_STAGE_OF_WEIGHTS
    trained = [group for group in inventory if group.is_trained]
    frozen = [group for group in inventory if not group.is_trained and not has_zero_3]
    tied = [
        group
        for group in trained
        if group.placement == "first-and-last-stage" and parallelism.pipeline == 1 and not has_zero_3
    ]
    alone = [*frozen, *tied]
    values = _STATES * sum(g.num_parameters for g in trained) + sum(g.num_parameters for g in alone)
    num_trained = sum(group.num_tensors for group in trained)
    files_each = _STATES if has_zero_3 else _STATES + 1
    files = list(count_files(checkpoint_layout.writers))
    model_states = [  # those of layers and of experts are left out
        (number, file)
        for number, file in files
        if file.name.endswith("rank_MM_model_states.pt") and not file.name.startswith("layer_")
    ]
    copied_bytes = sum(number * file.num_bytes for number, file in model_states)
    num_copied = sum(number * file.count for number, file in model_states)
    if has_zero_3:  # the largest share of the optimizer, with its fp32 weights
        parts = {part.name for part in checkpoint_layout.parts} | set(WEIGHTS)
        copied_bytes += max(file.bytes_of(parts) for _, file in files if file.name.endswith("optim_states.pt"))
    pieces = num_trained * parallelism.tensor + parallelism.num_replicas * parallelism.model_parallel_size
    return Universal(
        state_bytes=_BYTES_PER_VALUE * values,
        copied_bytes=copied_bytes,
        num_files=files_each * num_trained + sum(group.num_tensors for group in alone) + 1 + num_copied,
        num_working_files=files_each * pieces,
    )


def _check(training: Training, parallelism: Parallelism) -> None:
    """Raise InvalidInput for a checkpoint that ds_to_universal does not convert."""
    rules = (
        (
            "DeepSpeed's checkpoints",
            ("training.framework", training.framework),
            FRAMEWORKS[training.framework].converts_to_universal,
            "framework deepspeed",
        ),
        (
            "Adam's moments",
            ("training.optimizer", training.optimizer),
            training.optimizer in ("adam", "adamw"),
            "optimizer adamw",
        ),
        (
            "an optimizer that ZeRO divides",
            ("parallelism.zero_stage", 0),
            zero_shards_optimizer(training.precision, parallelism),
            "zero_stage 1, 2 or 3",
        ),
        (
            "experts that stand on one rank",
            ("parallelism.expert", parallelism.expert),
            parallelism.expert == 1,
            "expert 1",
        ),
    )
    for subject, (field, value), holds, remedy in rules:
        if not holds:
            rule = f"must be of {subject}, and {field} is {value}"
            raise InvalidInput.of(_FIELD, rule, value="deepspeed-universal", remedy=f"use safetensors, or {remedy}")
