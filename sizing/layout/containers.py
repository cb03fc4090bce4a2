"""Bytes that file formats add to the tensors: headers, directories, pickles; and the small state beside the tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

METADATA = ".metadata"
"""File of a distributed checkpoint that says where each shard is."""

ContainerName = Literal["torch-zip", "torch-zip-aligned", "distcp", "safetensors", "ocdbt"]


@dataclass(frozen=True, slots=True)
class ContainerOverhead:
    """Bytes that a container adds: per file, and per tensor in it."""

    bytes_per_file: int
    bytes_per_tensor: int


CONTAINERS: dict[ContainerName, ContainerOverhead] = {
    "torch-zip": ContainerOverhead(bytes_per_file=1_350, bytes_per_tensor=317),
    "torch-zip-aligned": ContainerOverhead(bytes_per_file=25_000, bytes_per_tensor=4_285),
    "distcp": ContainerOverhead(bytes_per_file=0, bytes_per_tensor=1_577),
    "safetensors": ContainerOverhead(bytes_per_file=8, bytes_per_tensor=114),
    "ocdbt": ContainerOverhead(bytes_per_file=120, bytes_per_tensor=200),
}
"""Bytes that each container adds. Source: measured with torch 2.13, state dicts of 1, 10, 100 and 1,000 tensors with
names of 45 characters: torch.save added 1,669, 4,229, 32,095 and 318,311 bytes, a .distcp file 1,577 bytes per tensor.
With storages aligned to 4,096 bytes for direct I/O, torch.save added 29,289, 66,693, 449,015 and 4,309,999 bytes to
tensors of whole pages, where each header takes a page; about 2,430 per tensor to tensors of other sizes. safetensors
0.8 added 120, 1,104, 11,176 and 113,648 bytes. Orbax 0.12 with zarr3, 10 and 100 arrays with names of 35 characters on
4 processes: each wrote 42 bytes per array beside its slices and 156 in `array_metadatas`; the process that merges the
manifests 720 more. Its index comes on top, anew with each commit: 1 to 29 kB per process for 38 arrays, as commits
happen to gather writes."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """Bytes of a `.metadata` file: for each name of a tensor, and for each shard.

    `is_stacked`: tensors of all layers have one name, unless the model has experts. `is_fused`: queries, keys and
    values of a layer have one name.
    """

    bytes_per_tensor: int
    bytes_per_shard: int
    is_stacked: bool = False
    is_fused: bool = False


OF_DCP = Metadata(bytes_per_tensor=260, bytes_per_shard=180)
"""`.metadata` of plain DCP: for each shard its bounds, and the file that has it. Source: fitted to the four sizes in
`published/framework_checkpoints.json`, 225 tensors on 1, 2, 4 and 8 ranks, which it meets within 10 %."""

WITH_PLANS = Metadata(bytes_per_tensor=169, bytes_per_shard=358, is_stacked=True)
"""`.metadata` of DCP with the plans of all ranks: bounds take 45 bytes of a shard, its file 100, its plan 170, and the
rest is for objects without tensors (`_extra_state` of linear modules, settings of the optimizer). Source: Megatron-LM,
dist_checkpointing/strategies/state_dict_saver.py, all_local_plans; fitted to 13 saves of Megatron-Core 0.16.1 on 8
ranks, 40 to 860 shards, which it meets within 9 %."""

WITH_PLANS_OF_FLAT_SHARES = Metadata(bytes_per_tensor=254, bytes_per_shard=311, is_stacked=True)
"""`.metadata` with the plans of all ranks, if most shards are of flat buffers. Their bounds have one dimension, and
each buffer has a name beside those of the weights. Source: as WITH_PLANS; fitted to 11 saves, 135 to 833 shards, which
it meets within 8 %."""

GENERATOR_STATE_BYTES = 5_056 + 16 + 3_755 + 2_675
"""Bytes of one rank's random-number generators: torch on CPU and CUDA, Python, NumPy. Source: measured, torch 2.13."""

SCHEDULER_AND_DATA_BYTES = 394 + 5_507
"""Bytes of one rank's learning-rate scheduler (OneCycleLR) and position in the data (a sampler's generator and
counters). Source: measured as pickles, torch 2.13; a data loader that prefetches keeps more."""


def container_bytes(container: ContainerOverhead, *, num_files: int, num_tensors: int) -> int:
    """Count the bytes that containers add: files x bytes per file + tensors x bytes per tensor.

    Source: as CONTAINERS.

    >>> container_bytes(CONTAINERS["torch-zip"], num_files=1, num_tensors=1000)
    318350
    """
    return num_files * container.bytes_per_file + num_tensors * container.bytes_per_tensor


def metadata_bytes(metadata: Metadata = OF_DCP, *, num_tensors: int, num_shards: int) -> int:
    """Compute the size of `.metadata`, which rank 0 writes and all read; in plain DCP 260 x tensors + 180 x shards.

    Source: as OF_DCP, WITH_PLANS and WITH_PLANS_OF_FLAT_SHARES.

    >>> metadata_bytes(num_tensors=225, num_shards=8 * 225)
    382500
    """
    return num_tensors * metadata.bytes_per_tensor + num_shards * metadata.bytes_per_shard
