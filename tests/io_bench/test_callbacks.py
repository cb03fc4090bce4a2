"""Callbacks that check a machine before a training, with the real trainers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.testbed.file_systems import disk
from tests.testbed.launch import REPOSITORY

if TYPE_CHECKING:
    from tests.conftest import Testbed

MIB = 2**20
OF_TRAINER = """
import sys, torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
from io_bench.callbacks.huggingface import CheckBeforeTraining
shape = dict(hidden_size=256, intermediate_size=512, num_attention_heads=4, num_key_value_heads=2, vocab_size=8192)
model = LlamaForCausalLM(LlamaConfig(num_hidden_layers=2, **shape))
tokens = torch.arange(8)
settings = TrainingArguments(sys.argv[1], max_steps=1, save_total_limit=2, use_cpu=True, report_to=[], save_strategy="no")
data = [{"input_ids": tokens, "labels": tokens}] * 2
Trainer(model, settings, train_dataset=data, callbacks=[CheckBeforeTraining()]).train()
print("trained")
"""
OF_LIGHTNING = """
import sys, torch
from lightning import LightningModule, Trainer
from io_bench.callbacks.lightning import CheckBeforeFit
class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2048, 2048)
    def training_step(self, batch, index):
        return self.layer(batch).sum()
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())
settings = dict(max_steps=1, accelerator="cpu", default_root_dir=sys.argv[1], logger=False, enable_progress_bar=False)
trainer = Trainer(callbacks=[CheckBeforeFit()], **settings)
trainer.fit(Model(), torch.utils.data.DataLoader(torch.rand(2, 2048)))
print("trained")
"""
"""Checkpoints of some 50 MB: three or two of them do not fit a disk of 64 MiB."""


@pytest.mark.exhaustive(minutes=2)
@pytest.mark.parametrize("program", [OF_TRAINER, OF_LIGHTNING], ids=["trainer of transformers", "lightning"])
def test_a_training_begins_only_where_its_checkpoints_have_room(program: str, tmp_path: Path, testbed: Testbed) -> None:
    full = testbed(disk(tmp_path, num_bytes=64 * MIB)).path

    def train(target: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program, str(target)]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)

    refused = train(full)
    assert refused.returncode != 0
    assert "NotFitForTraining: error: " in refused.stderr
    assert "error: room for the run: The disk fills during the run." in refused.stderr
    assert "trained" not in refused.stdout
    fits = train(tmp_path / "roomy")
    assert fits.returncode == 0, fits.stderr
    assert "room for the run" in fits.stdout
    assert fits.stdout.endswith("trained\n")
