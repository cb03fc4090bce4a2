"""The rate that docs/extending.md adds: a copy of the package with the page's lines writes slower, fits it, names it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sizing

PACKAGE = Path(sizing.__path__[0])
PAGE = PACKAGE.parent / "docs" / "extending.md"

QUESTIONS = """
import json, sys

from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from sizing.storage.calibration import calibrate
from sizing.storage.profile import StorageProfile
from sizing.storage.rates import Rates
from tests.sizing.storage.calibration.simulation import result

def report(**rates):
    profile = REFERENCE_SCENARIO["storage"]["profile"] | rates
    return answer(scenario_from(REFERENCE_SCENARIO | {"storage": {"profile": profile}}))

slowed = report(leaf_write_bytes_per_second="2 GB/s")
too_slow = report(leaf_write_bytes_per_second="1 GB/s")
truth = StorageProfile.of(
    write=Rates(
        file_system_bytes_per_second=40e9,
        writer_bytes_per_second=3e9,
        leaf_bytes_per_second=12e9,
        fixed_seconds=0.1,
    )
)
fitted = calibrate([result(truth=truth, outliers=0.0, noise=0.02, operations=("write",))], num_draws=40)
print(json.dumps({
    "seconds": [report().write.seconds, slowed.write.seconds],
    "max_node_bytes": slowed.layout.max_node_bytes,
    "bottleneck": slowed.write.bottleneck,
    "to_buy": too_slow.required.write_bytes_per_second,
    "obstacle": too_slow.required.write_obstacle,
    "limits": [limit.model_dump() for limit in fitted.write.limits],
    "profile": fitted.profile.leaf_write_bytes_per_second,
}))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the copy answers, with the lines of the page where the page says."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(PACKAGE, folder / "sizing", ignore=shutil.ignore_patterns("__pycache__"))
    section = PAGE.read_text(encoding="utf-8").split("## A rate of storage\n")[1].split("\n## ")[0]
    row, branch = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    rates, terms = (folder / "sizing" / "storage" / name for name in ("rates.py", "terms.py"))
    add_before(rates, '    "stripe",\n    "contention",', '    "leaf-switch",\n')
    add_before(rates, '"stripe", "cache", "gpu"', '"leaf", ')
    add_before(rates, "    stripe_bytes_per_second: Annotated[", indented(row, 4))
    add_before(terms, '        if unit == "stripe":', indented(branch, 8))
    path = os.pathsep.join([str(folder), str(PACKAGE.parent)])
    ran = subprocess.run(
        [sys.executable, "-c", QUESTIONS],
        env=os.environ | {"PYTHONPATH": path},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return dict(json.loads(ran.stdout))


def add_before(path: Path, place: str, lines: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(place) == 1
    path.write_text(text.replace(place, lines + place), encoding="utf-8")


def indented(lines: str, spaces: int) -> str:
    return "".join(f"{' ' * spaces}{line}\n" for line in lines.splitlines())


def test_the_rate_slows_a_write_by_its_own_term(told: dict[str, Any]) -> None:
    plain, slowed = told["seconds"]
    assert plain == pytest.approx(13.8e12 / 273e9)
    assert slowed == pytest.approx(4 * told["max_node_bytes"] / 2e9)


def test_the_answer_names_its_resource(told: dict[str, Any]) -> None:
    assert told["bottleneck"] == "leaf-switch"


def test_where_the_rate_is_too_slow_for_a_target_no_bandwidth_is_said_to_be_enough(told: dict[str, Any]) -> None:
    assert told["to_buy"] is None
    assert told["obstacle"].startswith("The max overhead is not met at any bandwidth: leaf-switch alone takes ")


def test_a_calibration_fits_the_rate(told: dict[str, Any]) -> None:
    (limit,) = (limit for limit in told["limits"] if limit["field"] == "leaf_write_bytes_per_second")
    assert (limit["verdict"], limit["resource"]) == ("measured", "leaf-switch")
    assert limit["value"] == pytest.approx(12e9, rel=0.05)
    assert told["profile"] == pytest.approx(12e9, rel=0.05)
