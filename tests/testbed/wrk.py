"""Questions to the service as fast as it answers them, by wrk."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from sizing.scenario import REFERENCE_SCENARIO
from tests.testbed.processes import SECONDS_UNTIL_STUCK

NUM_CONNECTIONS = 8
SCRIPT = """\
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
function request() return wrk.format(nil, nil, nil, string.format([[{body}]], math.random(60, 100000))) end
function delay() return {milliseconds} end
"""
ONE_LAYOUT = json.dumps(REFERENCE_SCENARIO)
OTHER_INTERVALS = ONE_LAYOUT.replace('"4h"', "%d")
"""With a random number of seconds between checkpoints in each request."""
OTHER_LAYOUTS = json.dumps(
    REFERENCE_SCENARIO
    | {"parallelism": REFERENCE_SCENARIO["parallelism"] | {"data": "%d"}, "cluster": {"node": "dgx-a100"}}
).replace('"%d"', "%d")
"""With a random number of replicas in each request."""


@dataclass(frozen=True)
class Load:
    """What wrk saw; every answer was a success."""

    answers_per_second: float
    p99_seconds: float


def loaded(
    url: str,
    directory: Path,
    *,
    seconds: int,
    body: str = ONE_LAYOUT,
    milliseconds: float = 0,
) -> Load:
    """POST `body` to `url` on NUM_CONNECTIONS connections, each answer followed by a pause of `milliseconds`.

    Raises AssertionError where an answer is no success.
    """
    script = directory / "post.lua"
    script.write_text(SCRIPT.format(body=body, milliseconds=round(milliseconds)))
    command = ["wrk", "-t1", f"-c{NUM_CONNECTIONS}", f"-d{seconds}s", "--latency", "-s", str(script), url]
    command += ["--timeout", f"{SECONDS_UNTIL_STUCK:.0f}s"]  # on a busy machine an answer may take its 2 s and more
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=seconds + 60).stdout
    assert "Non-2xx" not in said, said
    assert "Socket errors" not in said, said
    rate = re.search(r"Requests/sec:\s+([\d.]+)", said)
    slowest = re.search(r"99%\s+([\d.]+)(us|ms|s)", said)
    assert rate is not None
    assert slowest is not None
    return Load(float(rate[1]), float(slowest[1]) * {"us": 1e-6, "ms": 1e-3, "s": 1.0}[slowest[2]])
