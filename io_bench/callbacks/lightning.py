"""A callback of Lightning: Trainer(..., callbacks=[CheckBeforeFit()])."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from io_bench.callbacks.before_training import check_before_training


class CheckBeforeFit(Callback):
    """Checks on each node, before the first step, whether the folder of checkpoints and the machine can hold them.

    A module tells its parameters and its optimizer, but not its shape: sizes are those of its parameter count.
    """

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Check from the first rank of a node. Raises NotFitForTraining."""
        if trainer.local_rank != 0:
            return
        saving = trainer.checkpoint_callback
        folder = saving.dirpath if isinstance(saving, ModelCheckpoint) and saving.dirpath else trainer.default_root_dir
        kept = saving.save_top_k if isinstance(saving, ModelCheckpoint) else 1
        scenario: dict[str, Any] = {
            "model": {"num_parameters": sum(each.numel() for each in pl_module.parameters())},
            "training": {"framework": "lightning", "precision": _precision(trainer)},
            "parallelism": {"data": trainer.world_size},
        }
        if trainer.optimizers:
            scenario["training"]["optimizer"] = type(trainer.optimizers[0]).__name__.lower()
        if kept > 0:
            scenario["retention"] = {"keep_last": kept}
        check_before_training(str(folder), {"scenario.json": scenario}, num_gpus=trainer.world_size)


def _precision(trainer: Trainer) -> str:
    """Return the precision of a trainer in the words of a scenario."""
    named = {"bf16-mixed": "bf16-mixed", "16-mixed": "fp16-mixed", "bf16-true": "bf16"}
    return named.get(str(trainer.precision), "fp32")
