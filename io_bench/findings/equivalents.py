"""The same load by other tools: command lines to compare with, for the result."""

from __future__ import annotations

import shlex

from io_bench.engines import DEFAULT_BLOCK_BYTES
from sizing.storage.measurement import Operation


def equivalent_commands(
    operation: Operation,
    *,
    directory: str,
    num_ranks: int,
    bytes_per_rank: int,
    block_bytes: int | None,
    threads_per_rank: int,
    is_direct: bool,
) -> dict[str, str]:
    """Command lines of fio and elbencho for one node: a file per rank, as many requests in flight, durable at the end.

    fio fills its buffers anew for each write, as the payload is unique; reads want the files that a write has left.
    Source: fio 3.33, HOWTO; elbencho 3.1, --help-multi and --help-all.

    >>> lines = equivalent_commands("write", directory="/mnt/x", num_ranks=2, bytes_per_rank=2**30,
    ...     block_bytes=2**23, threads_per_rank=4, is_direct=True)
    >>> lines["elbencho"]
    'elbencho --write --dirs 0 --files 1 --threads 2 --size 1073741824 --block 8388608 --iodepth 4 --direct /mnt/x'
    """
    block = block_bytes or DEFAULT_BLOCK_BYTES
    depth = threads_per_rank if is_direct else 1
    size = -(-bytes_per_rank // block) * block
    place = shlex.quote(directory)
    if operation == "write":
        rw, sync, cache = "write --refill_buffers --end_fsync=1", "", "--sync"
    else:
        rw, sync, cache = "read", " --invalidate=1", "--dropcache"
    engine = f"--ioengine={'libaio' if is_direct else 'psync'} --direct={int(is_direct)} --iodepth={depth}"
    load = f"--threads {num_ranks} --size {size} --block {block} --iodepth {depth}"
    return {
        "fio": (
            f"fio --name=ckpt --directory={place} --rw={rw}{sync} {engine} "
            f"--bs={block} --size={size} --numjobs={num_ranks} --group_reporting"
        ),
        "elbencho": (
            f"elbencho --{operation if operation == 'write' else 'read'} --dirs 0 --files 1 {load} "
            f"{'--direct' if is_direct else cache} {place}"
        ),
    }
