"""One process of a real Orbax save: a Llama as MaxText lays it out, with Adam's moments, on a mesh of CPU devices.

Run by the JAX environment of `scripts/test long`, once per process:
python orbax_save.py RANK WORLD PORT FOLDER FSDP TENSOR VALUES, VALUES one of bits (which no codec compresses), normal
"""

import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

LAYERS, EMBED, HEADS, KV_HEADS, HEAD, MLP, VOCAB = 4, 512, 8, 4, 64, 1024, 2048
TWO_GIB = 2 * 1024**3
PARAMETERS = {
    "token_embedder.embedding": ((VOCAB, EMBED), ("tensor", "fsdp")),
    "decoder.decoder_norm.scale": ((EMBED,), ("tensor",)),
    "decoder.logits_dense.kernel": ((EMBED, VOCAB), ("fsdp", "tensor")),
    "layers.pre_self_attention_layer_norm.scale": ((EMBED, LAYERS), ("tensor", None)),
    "layers.post_self_attention_layer_norm.scale": ((EMBED, LAYERS), ("tensor", None)),
    "layers.self_attention.query.kernel": ((EMBED, LAYERS, HEADS, HEAD), ("fsdp", None, "tensor", None)),
    "layers.self_attention.key.kernel": ((EMBED, LAYERS, KV_HEADS, HEAD), ("fsdp", None, "tensor", None)),
    "layers.self_attention.value.kernel": ((EMBED, LAYERS, KV_HEADS, HEAD), ("fsdp", None, "tensor", None)),
    "layers.self_attention.out.kernel": ((HEADS, LAYERS, HEAD, EMBED), ("tensor", None, None, "fsdp")),
    "layers.mlp.wi_0.kernel": ((EMBED, LAYERS, MLP), ("fsdp", None, "tensor")),
    "layers.mlp.wi_1.kernel": ((EMBED, LAYERS, MLP), ("fsdp", None, "tensor")),
    "layers.mlp.wo.kernel": ((MLP, LAYERS, EMBED), ("tensor", None, "fsdp")),
}
"""MaxText, configs/base.yml: logical_axis_rules, scan_layers, param_scan_axis 1."""


def main(rank: int, world: int, port: str, folder: str, fsdp: int, tensor: int, values: str) -> None:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", world, rank)
    mesh = Mesh(np.array(jax.devices()).reshape(-1, fsdp, tensor), ("data", "fsdp", "tensor"))
    generator = np.random.default_rng(0)

    def array(shape: tuple[int, ...], spec: tuple[str | None, ...]) -> jax.Array:
        whole = (
            generator.standard_normal(shape, dtype=np.float32)
            if values == "normal"
            else generator.integers(0, 2**32, shape, dtype=np.uint32).view(np.float32)
        )
        sharding = NamedSharding(mesh, PartitionSpec(*spec))
        return jax.make_array_from_callback(shape, sharding, lambda index: whole[index])

    def tree() -> dict[str, jax.Array]:
        return {name: array(*how) for name, how in PARAMETERS.items()}

    state = {"params": tree(), "opt_state": {"mu": tree(), "nu": tree(), "count": array((), ())}, "step": array((), ())}
    handler = ocp.PyTreeCheckpointHandler(use_ocdbt=True, use_zarr3=True)
    checkpointer = ocp.AsyncCheckpointer(handler)
    checkpointer.save(folder, args=ocp.args.PyTreeSave(state, ocdbt_target_data_file_size=TWO_GIB))
    checkpointer.wait_until_finished()


if __name__ == "__main__":
    rank, world, port, folder, fsdp, tensor, values = sys.argv[1:]
    main(int(rank), int(world), port, folder, int(fsdp), int(tensor), values)
