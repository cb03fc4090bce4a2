"""One rank that saves some cases with Megatron-Core, without a GPU.

Started by `io_bench.checks.validation.forked_ranks`, with FOLDER NUMBER .... Each case goes into a folder of its
number; gradients are set by hand, as files do not depend on what they are. What asks for a GPU is answered by the processor.
"""

from __future__ import annotations

import contextlib
import queue
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import dist_checkpointing, parallel_state
from megatron.core.dist_checkpointing.strategies import filesystem_async
from megatron.core.dist_checkpointing.strategies.fully_parallel import FullyParallelSaveStrategyWrapper
from megatron.core.dist_checkpointing.strategies.torch import TorchDistSaveShardedStrategy
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.distributed.fsdp import mcore_fsdp_adapter
from megatron.core.distributed.fsdp.src.megatron_fsdp.uneven_dtensor import preprocess_state_dict_for_uneven_dtensor
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec, get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.tensor_parallel import random as tensor_parallel_random
from megatron.core.transformer.fsdp_dtensor_checkpoint import (
    handle_experts_in_state_dict,
    handle_swiglu_in_state_dict,
)
from megatron.core.transformer.transformer_config import TransformerConfig
from torch.distributed.checkpoint import state_dict_saver
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.device_mesh import DeviceMesh
from torch.nn import functional

from tests.sizing.layout.megatron.cases import CASES, Case

PROCESSOR = torch.device("cpu")
SHARDING_TYPE = {"dp-reshardable": "dp_reshardable", "fully-reshardable": "fully_reshardable"}
FACTORIES = ("tensor", "zeros", "empty", "ones", "arange", "full", "zeros_like", "empty_like")


class _Nothing:
    """A stream, an event or a tracker of random numbers that does nothing."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None

    def fork(self, *_: Any, **__: Any) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


def without_gpu() -> None:
    """Answer by the processor what Megatron asks of a GPU."""
    cuda: Any = torch.cuda
    cuda.current_device = lambda: PROCESSOR
    cuda.get_device_capability = lambda *_: (9, 0)
    cuda.get_rng_state = lambda *_: torch.get_rng_state()
    cuda.Stream = cuda.Event = cuda.current_stream = _Nothing
    cuda.stream = lambda *_: contextlib.nullcontext()
    for name in ("synchronize", "empty_cache", "set_device"):
        setattr(cuda, name, lambda *_, **__: None)
    tensor: Any = torch.Tensor
    tensor.cuda = lambda self, *_, **__: self
    type_of = tensor.type
    # Its buffers ask for tensors by the name of a GPU's type.
    tensor.type = lambda self, *to, **more: (
        type_of(self, *to, **more) if to or more else type_of(self).replace("torch.", "torch.cuda.")
    )
    for name in FACTORIES:
        setattr(torch, name, _on_processor(getattr(torch, name)))
    tensor.to = _on_processor(tensor.to)
    hook_of = tensor.register_post_accumulate_grad_hook
    # 0.16.1 asks for the gradients of frozen parameters too, which torch refuses; later ones ask for no such.
    tensor.register_post_accumulate_grad_hook = lambda self, hook: hook_of(self, hook) if self.requires_grad else None
    mesh: Any = DeviceMesh
    of_group = mesh.from_group
    mesh.from_group = staticmethod(lambda groups, *_, **options: of_group(groups, **options | {"device_type": "cpu"}))
    adapter: Any = mcore_fsdp_adapter
    adapter.TELinear = _Nothing
    random: Any = tensor_parallel_random
    random._CUDA_RNG_STATE_TRACKER, random._CUDA_RNG_STATE_TRACKER_INITIALIZED = _Nothing(), True
    # The results of the processes that write: those of asynchronous saves need a server, which takes ten seconds.
    filesystem_async._get_write_results_queue = queue.Queue


def _on_processor(made: Any) -> Any:
    def factory(*args: Any, **options: Any) -> Any:
        if _is_gpu(options.get("device")) or isinstance(options.get("device"), int):
            options["device"] = PROCESSOR
        return made(*(PROCESSOR if _is_gpu(each) else each for each in args), **options)

    return factory


def _is_gpu(device: object) -> bool:
    return isinstance(device, str | torch.device) and str(device).startswith("cuda")


def save(case: Case, folder: Path) -> None:
    """Build, step and save, on every rank."""
    _initialize(case.parallelism)
    if case.is_fsdp:
        _save_fsdp(case, folder)
        parallel_state.destroy_model_parallel()
        return
    chunks = _wrapped(case)
    is_distributed = case.optimizer_sharding is not None
    settings = OptimizerConfig(
        lr=1e-4, bf16=True, params_dtype=torch.bfloat16, use_distributed_optimizer=is_distributed, clip_grad=0.0
    )
    optimizer = get_megatron_optimizer(settings, chunks)
    for chunk in chunks:
        for parameter in chunk.parameters():
            parameter.main_grad.fill_(1e-3)
    optimizer.step()
    if case.is_legacy:
        _save_legacy(case, folder, chunks, optimizer)
    else:
        _save_sharded(case, folder, chunks, optimizer)
    parallel_state.destroy_model_parallel()


def _initialize(degrees: dict[str, Any]) -> None:
    tensor = degrees.get("tensor", 1)
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=tensor,
        pipeline_model_parallel_size=degrees.get("pipeline", 1),
        virtual_pipeline_model_parallel_size=degrees.get("virtual_pipeline"),
        context_parallel_size=degrees.get("context", 1),
        expert_model_parallel_size=degrees.get("expert", 1),
        expert_tensor_parallel_size=degrees.get("expert_tensor", tensor),
    )


def _wrapped(case: Case) -> list[Any]:
    config = _config(case)
    num_chunks = case.parallelism.get("virtual_pipeline", 1)
    ddp = DistributedDataParallelConfig(
        grad_reduce_in_fp32=True, use_distributed_optimizer=case.optimizer_sharding is not None
    )
    chunks: list[Any] = [
        DistributedDataParallel(config, ddp, _chunk(case, config, stage if num_chunks > 1 else None))
        for stage in range(num_chunks)
    ]
    for chunk in chunks:
        _share_as_in_training(chunk)
    return chunks


def _share_as_in_training(chunk: Any) -> None:
    """Replicas hold the same weights, and tensor ranks the same of what they do not cut, as routers."""
    chunk.broadcast_params()
    first = parallel_state.get_tensor_model_parallel_src_rank()
    for name, parameter in chunk.named_parameters():
        if "local_experts" not in name and not getattr(parameter, "tensor_model_parallel", False):
            dist.broadcast(parameter.data, first, parallel_state.get_tensor_model_parallel_group())


def _config(case: Case) -> TransformerConfig:
    a, degrees = case.architecture, case.parallelism
    given = {
        "num_layers_in_first_pipeline_stage": degrees.get("first_stage_layers"),
        "num_layers_in_last_pipeline_stage": degrees.get("last_stage_layers"),
        "account_for_embedding_in_pipeline_split": degrees.get("embedding_counts_as_layer", False),
        "account_for_loss_in_pipeline_split": degrees.get("loss_counts_as_layer", False),
    }
    if "num_experts" in a:
        dense = a.get("first_dense_layers", 0)
        given |= {
            "num_moe_experts": a["num_experts"],
            "moe_ffn_hidden_size": a["expert_ffn_hidden_size"],
            "moe_router_topk": a["num_experts_per_token"],
            "moe_layer_freq": [int(layer >= dense) for layer in range(a["num_layers"])],
        }
    tensor = degrees.get("tensor", 1)
    return TransformerConfig(
        num_layers=a["num_layers"],
        hidden_size=a["hidden_size"],
        num_attention_heads=a["num_attention_heads"],
        num_query_groups=a["num_kv_heads"],
        ffn_hidden_size=a["ffn_hidden_size"],
        tensor_model_parallel_size=tensor,
        pipeline_model_parallel_size=degrees.get("pipeline", 1),
        virtual_pipeline_model_parallel_size=degrees.get("virtual_pipeline"),
        expert_model_parallel_size=degrees.get("expert", 1),
        expert_tensor_parallel_size=degrees.get("expert_tensor", tensor),
        bf16=True,
        params_dtype=torch.bfloat16,
        pipeline_dtype=torch.bfloat16,
        add_bias_linear=False,
        gated_linear_unit=True,
        activation_func=functional.silu,
        normalization="RMSNorm",
        use_cpu_initialization=True,
        bias_dropout_fusion=False,
        bias_activation_fusion=False,
        masked_softmax_fusion=False,
        gradient_accumulation_fusion=False,
        apply_rope_fusion=False,
        persist_layer_norm=False,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        **given,
    )


def _chunk(case: Case, config: TransformerConfig, virtual_stage: int | None) -> Any:
    place = {} if virtual_stage is None else {"vp_stage": virtual_stage}
    is_whole = virtual_stage is None
    norm = "RMSNorm"
    if "num_experts" in case.architecture:
        spec = get_gpt_decoder_block_spec(config, use_transformer_engine=False, normalization=norm, **place)
    else:
        spec = get_gpt_layer_local_spec(normalization=norm)
    model = GPTModel(
        config,
        spec,
        case.architecture["vocab_size"],
        128,  # max_sequence_length: rotary positions have no parameters
        pre_process=parallel_state.is_pipeline_first_stage(ignore_virtual=is_whole, **place),
        post_process=parallel_state.is_pipeline_last_stage(ignore_virtual=is_whole, **place),
        share_embeddings_and_output_weights=case.architecture["tied_embeddings"],
        position_embedding_type="rope",
        **place,
    )
    return model.to(torch.bfloat16)


def _save_sharded(case: Case, folder: Path, chunks: list[Any], optimizer: Any) -> None:
    replicas = parallel_state.get_data_parallel_group(with_context_parallel=True)
    metadata = {"singleton_local_shards": False, "chained_optim_avoid_prefix": True, "dp_cp_group": replicas}
    if case.optimizer_sharding is not None:
        metadata["distrib_optim_sharding_type"] = SHARDING_TYPE[case.optimizer_sharding]
    names = ["model"] if len(chunks) == 1 else [f"model{number}" for number in range(len(chunks))]
    state: dict[str, Any] = {
        name: chunk.module.sharded_state_dict(metadata=metadata) for name, chunk in zip(names, chunks, strict=True)
    }
    state["optimizer"] = optimizer.sharded_state_dict(dict(state), metadata=metadata)
    strategy = TorchDistSaveShardedStrategy("torch_dist", 1, thread_count=case.files_per_rank)
    dist_checkpointing.save(state, str(folder), FullyParallelSaveStrategyWrapper(strategy, replicas))


def _save_fsdp(case: Case, folder: Path) -> None:
    """Megatron-FSDP's own shards of weights and moments, saved as megatron/training/checkpointing.py does.

    Its optimizer steps on a GPU alone: the moments are zeros on the shards that it steps on.
    """
    with_number: Any = torch.cuda
    with_number.current_device = lambda: 0
    config = _config(case)
    ddp = DistributedDataParallelConfig(
        use_distributed_optimizer=True, use_megatron_fsdp=True, data_parallel_sharding_strategy="optim_grads_params"
    )
    chunk = _chunk(case, config, None)
    for name, parameter in chunk.named_parameters():
        parameter.requires_grad_(case.frozen is None or f"self_{case.frozen}." not in name)
    model = mcore_fsdp_adapter.FullyShardedDataParallel(config, ddp, chunk, device=PROCESSOR)
    weights = {name: value for name, value in model.state_dict().items() if not name.endswith("_extra_state")}
    moments = {
        f"module.module.module.{name}": {moment: torch.zeros_like(shard.data) for moment in ("exp_avg", "exp_avg_sq")}
        for name, shard in model.module.param_and_grad_buffer.optimizer_named_parameters
        if shard.requires_grad
    }
    num_experts = config.num_moe_experts
    by_name = {"state": handle_experts_in_state_dict(moments, num_experts)}
    weights, optimizer = handle_swiglu_in_state_dict(model, weights, by_name)
    state = {"model": handle_experts_in_state_dict(weights, num_experts), "optimizer": optimizer}
    preprocess_state_dict_for_uneven_dtensor(state)
    state_dict_saver.save(state, storage_writer=FileSystemWriter(str(folder)))


def _save_legacy(case: Case, folder: Path, chunks: list[Any], optimizer: Any) -> None:
    """Who writes which file is megatron/training/checkpointing.py, save_checkpoint, which is not in Megatron-Core."""
    numbers = [f"{parallel_state.get_tensor_model_parallel_rank():02d}"]
    if case.parallelism.get("pipeline", 1) > 1:
        numbers.append(f"{parallel_state.get_pipeline_model_parallel_rank():03d}")
    if case.parallelism.get("expert", 1) > 1:
        numbers.append(f"{parallel_state.get_expert_model_parallel_rank():03d}")
    of_rank = folder / f"mp_rank_{'_'.join(numbers)}"
    of_rank.mkdir(exist_ok=True)
    if case.optimizer_sharding is not None:
        optimizer.save_parameter_state(str(of_rank / "distrib_optim.pt"))
    if 0 in {parallel_state.get_data_parallel_rank(), parallel_state.get_expert_data_parallel_rank()}:
        state = {"model": [chunk.state_dict_for_save_checkpoint() for chunk in chunks]}
        torch.save(state | {"optimizer": optimizer.state_dict()}, of_rank / "model_optim_rng.pt")


def main(arguments: list[str]) -> None:
    """The work of a rank, in its process group."""
    folder, *numbers = arguments
    without_gpu()
    for number in numbers:
        of_case = Path(folder) / number
        of_case.mkdir(exist_ok=True)
        dist.barrier()
        save(CASES[int(number)], of_case)
        dist.barrier()
