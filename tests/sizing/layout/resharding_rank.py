"""One of some ranks that save a small transformer cut by FSDP2 and tensor ranks, and load it cut in another way.

Run as a module: rank, world size, a file to meet at, a folder, then the tensor degrees that save and that load. Prints
the bytes of saved shards that the rank reads, and those of what it holds.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from typing import IO, Any

import torch
from torch import distributed, nn
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from io_bench.checks.validation.forked_ranks import leave

HIDDEN, FFN, VOCABULARY, NUM_LAYERS, NUM_HEADS = 512, 1024, 2048, 2, 8
ARCHITECTURE: dict[str, Any] = {
    "family": "llama",
    "hidden_size": HIDDEN,
    "num_layers": NUM_LAYERS,
    "num_attention_heads": NUM_HEADS,
    "num_kv_heads": NUM_HEADS,
    "ffn_hidden_size": FFN,
    "vocab_size": VOCABULARY,
    "tied_embeddings": False,
}


class Layer(nn.Module):
    """The matrices and norms of a layer, which only save and load."""

    def __init__(self) -> None:
        super().__init__()
        self.by_rows = nn.ModuleList(nn.Linear(HIDDEN, size, bias=False) for size in (*[HIDDEN] * 3, FFN, FFN))
        self.by_columns = nn.ModuleList(nn.Linear(size, HIDDEN, bias=False) for size in (HIDDEN, FFN))
        self.norms = nn.ModuleList(nn.RMSNorm(HIDDEN) for _ in range(2))


class Transformer(nn.Module):
    """Layers between an embedding and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(NUM_LAYERS))
        self.norm = nn.RMSNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)


def model(*, tensor: int) -> nn.Module:
    """Cut as torchtitan cuts Llama: torchtitan, models/llama3/parallelize.py."""
    mesh = init_device_mesh("cpu", (distributed.get_world_size() // tensor, tensor), mesh_dim_names=("dp", "tp"))
    whole = Transformer()
    if tensor > 1:
        plan = {"embedding": RowwiseParallel(), "head": ColwiseParallel()}
        plan |= {"layers.*.by_rows.*": ColwiseParallel(), "layers.*.by_columns.*": RowwiseParallel()}
        parallelize_module(whole, mesh["tp"], plan)
    for layer in whole.layers:
        fully_shard(layer, mesh=mesh["dp"])
    fully_shard(whole, mesh=mesh["dp"])
    return whole


class CountingReader(FileSystemReader):
    """Counts the bytes of the saved shards that it opens, each of which is loaded whole."""

    num_bytes = 0

    def _slice_file(self, file: IO[bytes], sinfo: Any) -> IO[bytes]:
        self.num_bytes += sinfo.length
        opened: IO[bytes] = super()._slice_file(file, sinfo)
        return opened


def main() -> None:
    rank, world, meeting, folder, saved, restored = sys.argv[1:]
    distributed.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=int(rank), world_size=int(world), timeout=timedelta(minutes=5)
    )
    torch.manual_seed(int(rank))
    save(get_model_state_dict(model(tensor=int(saved))), checkpoint_id=folder)
    state: dict[str, Any] = get_model_state_dict(model(tensor=int(restored)))
    reader = CountingReader(folder)
    load(state, storage_reader=reader)
    held = sum(each.to_local().nbytes for each in state.values())
    print(json.dumps({"read_bytes": reader.num_bytes, "held_bytes": held}), flush=True)
    leave()


if __name__ == "__main__":
    main()
