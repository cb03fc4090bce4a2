"""Train a small Llama for two steps with a library and save as it does: python library_folders.py KIND FOLDER.

Kinds of DeepSpeed, DDP and DCP are started by torchrun, on as many ranks as wanted; Trainer and accelerate may be.
"""

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "vocab_size": 64},
    "small": {"hidden_size": 256, "intermediate_size": 688, "num_attention_heads": 8, "vocab_size": 4096},
}


def llama(shape: str, *, tied: bool = False) -> Any:
    """A Llama of two layers: tiny has 19,616 parameters, small 3.5 million."""
    config = transformers.LlamaConfig(
        num_hidden_layers=2, num_key_value_heads=2, tie_word_embeddings=tied, **SHAPES[shape]
    )
    return transformers.LlamaForCausalLM(config)


def tiny_llama() -> Any:
    """The tiny one, or the one that the environment names."""
    return llama(os.environ.get("LLAMA", "tiny"))


class Tokens(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = torch.arange(8)
        return {"input_ids": tokens, "labels": tokens}


def scheduled(model: Any) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    optimizer = torch.optim.AdamW(model.parameters())
    return optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer)


def trainer(folder: Path, **given: Any) -> None:
    arguments = transformers.TrainingArguments(
        str(folder), max_steps=2, save_steps=2, per_device_train_batch_size=2, report_to=[], use_cpu=True, **given
    )
    transformers.Trainer(tiny_llama(), arguments, train_dataset=Tokens()).train()


def trainer_with_adapters(folder: Path) -> None:
    from peft import LoraConfig, get_peft_model  # noqa: PLC0415  as below

    adapted = get_peft_model(tiny_llama().to(torch.bfloat16), LoraConfig(r=64, target_modules=["q_proj", "v_proj"]))
    arguments = transformers.TrainingArguments(
        str(folder), max_steps=2, save_steps=2, per_device_train_batch_size=2, report_to=[], use_cpu=True
    )
    transformers.Trainer(adapted, arguments, train_dataset=Tokens()).train()


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


def take_cpu_for_gpu() -> None:
    """Let accelerate, which has FSDP on GPUs alone, take gloo on CPUs for several of them."""
    from accelerate import PartialState  # noqa: PLC0415  as above
    from accelerate.utils import DistributedType  # noqa: PLC0415  as above

    state: Any = PartialState(cpu=True)
    state.distributed_type, state.device = DistributedType.MULTI_GPU, torch.device("cpu")


def trainer_with_fsdp(folder: Path, *, state_dict_type: str) -> None:
    os.environ |= {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}
    config = {"version": 2, "state_dict_type": state_dict_type, "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]}
    run: dict[str, Any] = {"fsdp": True, "max_steps": 2, "save_steps": 2, "per_device_train_batch_size": 2}
    arguments = transformers.TrainingArguments(str(folder), report_to=[], use_cpu=True, fsdp_config=config, **run)
    assert arguments.device.type == "cpu"  # asked for its device, it takes hold of the process group
    take_cpu_for_gpu()
    transformers.Trainer(tiny_llama(), arguments, train_dataset=Tokens()).train()


def accelerate_with_fsdp(folder: Path, *, state_dict_type: str) -> None:
    from accelerate import Accelerator, FullyShardedDataParallelPlugin  # noqa: PLC0415  as above

    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2,
        state_dict_type=state_dict_type,
        auto_wrap_policy="transformer_based_wrap",
        transformer_cls_names_to_wrap=["LlamaDecoderLayer"],
    )
    take_cpu_for_gpu()
    accelerator, model = Accelerator(cpu=True, fsdp_plugin=plugin), tiny_llama()
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


def ddp(folder: Path) -> None:
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(tiny_llama())
    optimizer = torch.optim.AdamW(model.parameters())
    model(**batch()).loss.backward()
    optimizer.step()
    if torch.distributed.get_rank() == 0:
        folder.mkdir(parents=True)
        state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 1}
        torch.save(state, folder / "ckpt_2.pt")
    torch.distributed.destroy_process_group()


def dcp_async(folder: Path) -> None:
    from torch.distributed.checkpoint.state_dict import get_state_dict  # noqa: PLC0415  as above
    from torch.distributed.checkpoint.state_dict_saver import async_save  # noqa: PLC0415  as above
    from torch.distributed.fsdp import fully_shard  # noqa: PLC0415  as above

    torch.distributed.init_process_group("gloo")
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    model = fully_shard(tiny_llama(), mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters())
    model(**batch()).loss.backward()
    optimizer.step()
    weights, moments = get_state_dict(model, optimizer)
    saving: Any = async_save({"model": weights, "optimizer": moments, "step": 2}, checkpoint_id=folder / "step-2")
    saving.result()
    torch.distributed.destroy_process_group()


def deepspeed_without_compiler() -> Any:
    """DeepSpeed without its faster all-reduce, which takes minutes to compile; a killed compiler leaves a lock."""
    import deepspeed as library  # noqa: PLC0415  as above

    library.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    return library


def deepspeed_config(*, stage: int, batch: int) -> dict[str, Any]:
    return {
        "train_micro_batch_size_per_gpu": batch,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": stage},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.0, "torch_adam": True}},
    }


def trainer_with_deepspeed(folder: Path, *, stage: int) -> None:
    deepspeed_without_compiler()
    trainer(folder, bf16=True, learning_rate=1e-3, deepspeed=deepspeed_config(stage=stage, batch=2))


def deepspeed(folder: Path, *, stage: int) -> None:
    library = deepspeed_without_compiler()
    model = tiny_llama()
    config = deepspeed_config(stage=stage, batch=4)
    engine, *_ = library.initialize(model=model, model_parameters=model.parameters(), config=config)
    engine.backward(engine(**batch()).loss)
    engine.step()
    engine.save_checkpoint(str(folder))


def batch() -> Any:
    return torch.utils.data.default_collate([Tokens()[place] for place in range(4)])


KINDS: dict[str, Callable[[Path], None]] = {
    "trainer": trainer,
    "trainer-adafactor": functools.partial(trainer, optim="adafactor"),
    "trainer-sgd": functools.partial(trainer, optim="sgd"),
    "trainer-momentum": functools.partial(trainer, optim="sgd", optim_args="momentum=0.9"),
    "trainer-8bit": functools.partial(trainer, optim="adamw_bnb_8bit"),
    "trainer-adapters": trainer_with_adapters,
    "trainer-deepspeed-1": functools.partial(trainer_with_deepspeed, stage=1),
    "trainer-deepspeed-2": functools.partial(trainer_with_deepspeed, stage=2),
    "trainer-deepspeed-3": functools.partial(trainer_with_deepspeed, stage=3),
    "trainer-fsdp": functools.partial(trainer_with_fsdp, state_dict_type="SHARDED_STATE_DICT"),
    "trainer-fsdp-full": functools.partial(trainer_with_fsdp, state_dict_type="FULL_STATE_DICT"),
    "accelerate": accelerate,
    "accelerate-fsdp": functools.partial(accelerate_with_fsdp, state_dict_type="SHARDED_STATE_DICT"),
    "accelerate-fsdp-full": functools.partial(accelerate_with_fsdp, state_dict_type="FULL_STATE_DICT"),
    "lightning": lightning,
    "ddp": ddp,
    "dcp-async": dcp_async,
    "deepspeed-0": functools.partial(deepspeed, stage=0),
    "deepspeed-1": functools.partial(deepspeed, stage=1),
    "deepspeed-2": functools.partial(deepspeed, stage=2),
    "deepspeed-3": functools.partial(deepspeed, stage=3),
}

if __name__ == "__main__":
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    KINDS[sys.argv[1]](Path(sys.argv[2]))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # threads of torch that want the interpreter while it ends would abort the process, now and then
