"""Real runs that a share of a CPU limits, and real runs that a disk limits: each is told, again and again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.testbed.cpu_quota import cpu_quota
from tests.testbed.file_systems import disk, memory_disk, throttled

if TYPE_CHECKING:
    from tests.conftest import Testbed
    from tests.io_bench.conftest import Bench

DISK_BYTES = 300_000_000
SLOW_BYTES_PER_SECOND = 25_000_000
NUM_RUNS = 3


def measured(bench: Bench, target: Path, groups: list[Path], *flags: str) -> list[dict[str, Any]]:
    """The write and the restore of a run that joins control groups once its libraries are there."""
    joined = "\n".join(f"open('{group}/cgroup.procs', 'w').write(str(os.getpid()))" for group in groups)
    prelude = f"import os\nimport io_bench.commands.run, io_bench.engines.direct\n{joined}"
    output = bench.directory / "r.json"
    done = bench.run(
        "run", "--target", str(target), "--repetitions", "5", *flags, "--output", str(output), prelude=prelude
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(output.read_text())["measurements"]
    return found


@pytest.mark.long(minutes=1)
@pytest.mark.parametrize(
    "flags", [("torch-save",), pytest.param(("direct", "--block-size", "64KiB"), marks=pytest.mark.exhaustive)]
)
def test_a_fifth_of_a_cpu_before_a_fast_disk_is_the_limit_in_every_run(
    bench: Bench, tmp_path: Path, testbed: Testbed, flags: tuple[str, ...]
) -> None:
    memory = testbed(memory_disk(tmp_path, num_bytes=2 * DISK_BYTES))  # no other test can make it slow
    fast = testbed(disk(memory, num_bytes=DISK_BYTES))
    quota = testbed(cpu_quota(0.2))
    throttled_fractions = []
    for _ in range(NUM_RUNS):
        for found in measured(bench, fast.path, [quota.group], "--bytes-per-rank", "64MiB", "--engine", *flags):
            assert found["limited_by"] in ("client", "not-told-apart"), found
            assert found["limit_probabilities"]["client"] > 0.5
            throttled_fractions.append(found["throttled_fraction"])
    assert max(throttled_fractions) > 0.5  # where other processes take the CPU, the quota lasts longer


@pytest.mark.exhaustive(minutes=1)
@pytest.mark.parametrize("num_cpus", [None, 0.2])
def test_a_slow_disk_is_the_limit_in_every_run_also_where_a_fifth_of_a_cpu_is_enough(
    bench: Bench, tmp_path: Path, testbed: Testbed, num_cpus: float | None
) -> None:
    slow = testbed(disk(tmp_path, num_bytes=DISK_BYTES))
    rates = {"write_bytes_per_second": SLOW_BYTES_PER_SECOND, "read_bytes_per_second": SLOW_BYTES_PER_SECOND}
    groups = [testbed(throttled(slow, **rates)).group]
    if num_cpus is not None:
        groups.append(testbed(cpu_quota(num_cpus)).group)
    for _ in range(NUM_RUNS):
        for found in measured(bench, slow.path, groups, "--bytes-per-rank", "24MiB"):
            assert found["limited_by"] == "storage", found
            assert found["throttled_fraction"] < 0.5
