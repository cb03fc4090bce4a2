"""What a chunk costs beside its computing: here, by one and two local processes, and by two workers of Dask."""

import functools
import time
from pathlib import Path

import pytest

from executors.dask import DaskWorkers
from executors.local import LocalWorkers
from sizing.questions.chunks import Computer, compute_here, ignore_progress
from tests.executors.toy_work import ToyWork
from tests.testbed.dask import cluster

NUM_CHUNKS = {
    "the function alone": 4_000,
    "1 local process": 4_000,
    "2 local processes": 4_000,
    "2 workers of Dask": 1_000,
}


@pytest.mark.benchmark
def test_chunks_that_compute_nothing(tmp_path: Path) -> None:
    with cluster(tmp_path) as running:
        computers: dict[str, Computer] = {
            "the function alone": compute_here,
            "1 local process": LocalWorkers(1).compute,
            "2 local processes": LocalWorkers(2).compute,
            "2 workers of Dask": DaskWorkers(running.address).compute,
        }
        for attempt in range(5):
            for name, compute in computers.items():
                make = functools.partial(ToyWork, 10 * NUM_CHUNKS[name])
                work = make()
                parts = iter(compute(work, make, ignore_progress))
                start = time.perf_counter()
                next(parts)
                first = time.perf_counter()
                num_further = sum(1 for _ in parts)
                seconds = (time.perf_counter() - first) / num_further
                print(
                    f"{attempt}: {name}: the first part after {first - start:.2f} s, "
                    f"{seconds * 1e3:.3f} ms for each further one, {1 / seconds:,.0f} a second"
                )
