"""Train a small model, save five times and print the most checkpoints that were there at once, and those at the end.

python kept_checkpoints.py KIND FOLDER LIMIT
"""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

from tests.sizing.checkpoint_files.library_folders import Tokens, llama, scheduled

NUM_SAVES = 5


class Watch:
    """Counts what stands in a folder, again and again, until it is stopped."""

    def __init__(self, folder: Path, pattern: str) -> None:
        self.folder, self.pattern, self.most, self.stopped = folder, pattern, 0, threading.Event()
        self.thread = threading.Thread(target=self._count, daemon=True)

    def _count(self) -> None:
        while not self.stopped.wait(0.0005):
            self.most = max(self.most, self.count())

    def count(self) -> int:
        """Number of checkpoints that stand there now."""
        return len(list(self.folder.glob(self.pattern)))

    def run(self, train: Callable[[], None]) -> None:
        """Train, and count meanwhile."""
        self.thread.start()
        train()
        self.stopped.set()
        self.thread.join()


def trainer(folder: Path, limit: int, **given: Any) -> None:
    arguments = transformers.TrainingArguments(
        str(folder), max_steps=NUM_SAVES, save_steps=1, save_total_limit=limit, report_to=[], use_cpu=True, **given
    )
    transformers.Trainer(llama("small"), arguments, train_dataset=Tokens(), eval_dataset=Tokens()).train()


def trainer_with_best(folder: Path, limit: int) -> None:
    """The loss falls, and the highest is taken for the best, so that the first save stays it."""
    best = {"load_best_model_at_end": True, "metric_for_best_model": "eval_loss", "greater_is_better": True}
    trainer(folder, limit, eval_strategy="steps", eval_steps=1, **best)


def accelerate(folder: Path, limit: int) -> None:
    from accelerate import Accelerator  # noqa: PLC0415  each way needs its own library
    from accelerate.utils import ProjectConfiguration  # noqa: PLC0415  as above

    project = ProjectConfiguration(str(folder), automatic_checkpoint_naming=True, total_limit=limit)
    accelerator, model = Accelerator(cpu=True, project_config=project), llama("small")
    accelerator.prepare(model, *scheduled(model))
    for _ in range(NUM_SAVES):
        accelerator.save_state()


def lightning(folder: Path, limit: int) -> None:
    from lightning import LightningModule, Trainer  # noqa: PLC0415  as above
    from lightning.pytorch.callbacks import ModelCheckpoint  # noqa: PLC0415  as above

    class Module(LightningModule):  # type: ignore[misc]  # Lightning is not installed where types are checked
        def __init__(self) -> None:
            super().__init__()
            self.model = llama("small")

        def training_step(self, batch: dict[str, torch.Tensor], index: int) -> Any:
            self.log("number", float(self.global_step))
            del index
            return self.model(**batch).loss

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters())

    keeping = ModelCheckpoint(folder, monitor="number", mode="max", save_top_k=limit, every_n_train_steps=1)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    running = Trainer(max_steps=NUM_SAVES, accelerator="cpu", callbacks=[keeping], **quiet)
    running.fit(Module(), torch.utils.data.DataLoader(Tokens(), batch_size=1))


KINDS: dict[str, tuple[Callable[[Path, int], None], str]] = {
    "transformers": (trainer, "checkpoint-*"),
    "transformers-best": (trainer_with_best, "checkpoint-*"),
    "accelerate": (accelerate, "checkpoints/checkpoint_*"),
    "lightning": (lightning, "*.ckpt"),
}

if __name__ == "__main__":
    kind, folder, limit = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    train, pattern = KINDS[kind]
    watch = Watch(folder, pattern)
    watch.run(lambda: train(folder, limit))
    print(watch.most, watch.count())
