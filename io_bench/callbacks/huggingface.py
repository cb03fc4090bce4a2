"""A callback of the Hugging Face Trainer: Trainer(..., callbacks=[CheckBeforeTraining()])."""

from __future__ import annotations

import json
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from io_bench.callbacks.before_training import check_before_training


class CheckBeforeTraining(TrainerCallback):
    """Checks on each node, before the first step, whether `output_dir` and the machine can hold the checkpoints."""

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,  # noqa: ARG002 - what a callback is called with
        control: TrainerControl,  # noqa: ARG002 - as above
        model: Any = None,
        **_: Any,
    ) -> None:
        """Check from the first rank of a node. Raises NotFitForTraining."""
        if args.local_process_index == 0:
            config = json.loads(model.config.to_json_string(use_diff=False))
            settings = json.loads(args.to_json_string())  # type: ignore[no-untyped-call]  # the library has no types for it
            documents = {"training_args.json": settings, "config.json": config}
            check_before_training(args.output_dir or ".", documents, num_gpus=args.world_size)
