"""Train a tiny Llama for two steps with a library and save as it does: python library_folders.py KIND FOLDER."""

import sys
from pathlib import Path
from typing import Any

import torch
import transformers


def tiny_llama() -> Any:
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            vocab_size=64,
            tie_word_embeddings=False,
        )
    )


class Tokens(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = torch.arange(8)
        return {"input_ids": tokens, "labels": tokens}


def scheduled(model: Any) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    optimizer = torch.optim.AdamW(model.parameters())
    return optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer)


def trainer(folder: Path) -> None:
    arguments = transformers.TrainingArguments(
        str(folder), max_steps=2, save_steps=2, per_device_train_batch_size=2, report_to=[], use_cpu=True
    )
    transformers.Trainer(tiny_llama(), arguments, train_dataset=Tokens()).train()


def accelerate(folder: Path) -> None:
    from accelerate import Accelerator  # noqa: PLC0415  each way needs its own library

    accelerator, model = Accelerator(cpu=True), tiny_llama()
    loader = torch.utils.data.DataLoader(Tokens(), batch_size=2)
    model, optimizer, scheduler, loader = accelerator.prepare(model, *scheduled(model), loader)
    for batch in loader:
        accelerator.backward(model(**batch).loss)
        optimizer.step()
        scheduler.step()
    accelerator.save_state(str(folder))


def lightning(folder: Path) -> None:
    from lightning import LightningModule, Trainer  # noqa: PLC0415  as above

    class Module(LightningModule):  # type: ignore[misc]  # Lightning is not installed where types are checked
        def __init__(self) -> None:
            super().__init__()
            self.model = tiny_llama()

        def training_step(self, batch: dict[str, torch.Tensor], index: int) -> Any:
            del index
            return self.model(**batch).loss

        def configure_optimizers(self) -> Any:
            optimizer, scheduler = scheduled(self)
            return [optimizer], [scheduler]

    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    running = Trainer(default_root_dir=folder, max_steps=2, accelerator="cpu", **quiet)
    running.fit(Module(), torch.utils.data.DataLoader(Tokens(), batch_size=2))


if __name__ == "__main__":
    {"trainer": trainer, "accelerate": accelerate, "lightning": lightning}[sys.argv[1]](Path(sys.argv[2]))
