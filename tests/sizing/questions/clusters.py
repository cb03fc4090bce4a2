"""Small clusters for the tests: equal jobs of 8B on one file system."""

from typing import Any

from sizing.questions.cluster.job import SimulationRecord
from sizing.questions.cluster.load import JobLoad, compute_job_loads, resolve_shared_storage
from sizing.questions.cluster.request import ClusterScenario
from sizing.questions.cluster.simulation import simulate

LARGEST_SHARE_BYTES = 14_069_143_552
"""Of one of the 8 ranks among which torch-dist deals whole tensors: the manifest's largest file."""


def document(*, num_jobs: int = 1, **changes: Any) -> dict[str, Any]:
    """Jobs that save 112 GB every 4 h; `changes` go to the job, its scenario or the cluster, by name.

    They save Megatron's classic files, and read at once after a failure, unless the changes say otherwise.
    """
    scenario: dict[str, Any] = {
        "model": {"preset": "llama-3.1-8b"},
        "parallelism": {"data": 8},
        "checkpoint": {"format": "megatron"},
    }
    job: dict[str, Any] = {"name": "8B", "count": num_jobs, "scenario": scenario}
    whole: dict[str, Any] = {
        "jobs": [job],
        "storage": {"profile": {"write_bytes_per_second": "40 GB/s", "read_bytes_per_second": "80 GB/s"}},
    }
    for name, value in changes.items():
        place = scenario if name in ("checkpoint", "reliability") else whole
        (job if name in ("start", "compute_jitter_fraction") else place)[name] = value
    scenario["checkpoint"] = {"format": "megatron"} | scenario["checkpoint"]
    scenario["training"] = {"distributed_optimizer": scenario["checkpoint"]["format"] == "torch-dist"}
    if "reliability" in scenario:
        relaunch = {} if "restart_seconds" in scenario["reliability"] else {"relaunch_seconds": 0}
        scenario["reliability"] = {"detection_seconds": 0} | relaunch | scenario["reliability"]
    return whole


def loads_of(asked: dict[str, Any]) -> list[JobLoad]:
    return compute_job_loads(ClusterScenario.model_validate(asked))


def simulated(asked: dict[str, Any]) -> SimulationRecord:
    scenario = ClusterScenario.model_validate(asked)
    storage = resolve_shared_storage(scenario)
    return simulate(
        compute_job_loads(scenario),
        write_bytes_per_second=storage.write_bytes_per_second,
        read_bytes_per_second=storage.read_bytes_per_second,
        horizon_seconds=scenario.horizon_seconds,
        seed=scenario.seed,
    )
