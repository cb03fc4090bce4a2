"""Whether two versions answer alike: scripts/compare_answers.py BEFORE AFTER [--scenarios 200] [--names NAMES.json].

BEFORE and AFTER are checkouts, each with its .venv. The service of each is asked every question over REST: the examples
of its OpenAPI document, every catalog, the published rows, and random scenarios by all questions about one scenario.
NAMES.json maps former names of fields to new ones. Prints each path with how many answers are equal, and for unequal
ones the first fields that differ; exit code 1 where any differ.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

_HEAVY = {"/v1/requirements": 4, "/v1/sensitivities": 4, "/v1/simulations": 10, "/v1/layouts": 20, "/v1/manifests": 4}
"""Questions that take a scenario, and of how many random scenarios one is asked: the others answer in milliseconds."""


def main() -> int:
    """Ask both, compare, and print."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("before", type=Path)
    arguments.add_argument("after", type=Path)
    arguments.add_argument("--scenarios", type=int, default=200)
    arguments.add_argument("--first-seed", type=int, default=20_000)
    arguments.add_argument("--names", type=Path)
    asked = arguments.parse_args()
    names = json.loads(asked.names.read_text()) if asked.names else {}
    equal: dict[str, int] = {}
    unequal: dict[str, list[str]] = {}
    with served(asked.before) as before, served(asked.after) as after:
        for path, document in questions(before, asked.first_seed, asked.scenarios):
            first, second = answer(before, path, document, names), answer(after, path, document, {})
            differing = list(differences(first, second, ""))
            if differing:
                shown = [json.dumps(document)[:300], *differing[:8]]
                unequal.setdefault(path, []).append("\n      ".join(shown))
            else:
                equal[path] = equal.get(path, 0) + 1
    for path in sorted({*equal, *unequal}):
        print(f"{path}: {equal.get(path, 0)} equal, {len(unequal.get(path, []))} unequal")
        for each in unequal.get(path, [])[:3]:
            print(f"    {each}")
    return 1 if unequal else 0


@contextlib.contextmanager
def served(checkout: Path) -> Iterator[httpx.Client]:
    """A client of the checkout's service on a free port of loopback, with a database of its own."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"CKPT_SERVE_REQUESTS_PER_SECOND": "0", "XDG_DATA_HOME": folder}
        command = [checkout / ".venv/bin/ckpt-serve", "--port", "0", "--database-url", f"sqlite:///{folder}/it.sqlite3"]
        with subprocess.Popen(  # noqa: S603 - the checkout that the caller names
            command, env=environment, cwd=checkout, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            try:
                assert process.stdout is not None  # noqa: S101 - asked for above
                seen = ""
                for line in process.stdout:
                    seen += line
                    if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                        break
                else:
                    sys.exit(f"{checkout} does not serve: {seen}")
                with httpx.Client(base_url=found[0], timeout=600) as client:
                    yield client
            finally:
                process.terminate()


def questions(client: httpx.Client, first_seed: int, num: int) -> Iterator[tuple[str, Any]]:
    """Every path with each document that it is asked; None where it is only read."""
    paths = client.get("/openapi.json").json()["paths"]
    for path, methods in paths.items():
        if "get" in methods and "{" not in path and "security" not in methods["get"] and path.startswith("/v1/"):
            yield path, None
        content = methods.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json", {})
        for example in content.get("examples", {}).values():
            if "{" not in path and "security" not in methods["post"]:
                yield path, example["value"]
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.sizing.laws.scenarios import drawn  # noqa: PLC0415 - of the checkout that holds this script

    for place in range(num):
        document = drawn(first_seed + place)
        yield "/v1/sizings", document
        for path, every in _HEAVY.items():
            if place % every == 0:
                yield path, document if path in {"/v1/requirements", "/v1/sensitivities"} else {"scenario": document}


def answer(client: httpx.Client, path: str, document: Any, names: dict[str, str]) -> Any:
    """The status and the JSON of an answer, with new names for former ones; a job is waited for."""
    if document is None:
        found = client.get(path)
    else:
        found = client.post(path, json=document, headers={"Prefer": "wait=600"})
        while found.status_code == 202:
            state = client.get(found.headers["Location"]).json()
            found = client.get(state["result"]) if state.get("result") else found
    body = found.json() if "json" in found.headers.get("content-type", "") else found.text
    return {"status": found.status_code, "body": renamed(body, names)}


def renamed(value: Any, names: dict[str, str]) -> Any:
    """The document with new names for former ones."""
    if isinstance(value, dict):
        return {names.get(name, name): renamed(part, names) for name, part in value.items()}
    return [renamed(part, names) for part in value] if isinstance(value, list) else value


def differences(before: Any, after: Any, path: str) -> Iterator[str]:
    """The fields in which two documents differ; numbers may differ by rounding, in the thirteenth digit."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}):
            if name not in after or name not in before:
                yield f"{path}.{name} is only {'before' if name in before else 'after'}"
            elif name not in {"instance", "request_id", "version", "service_version"}:
                yield from differences(before[name], after[name], f"{path}.{name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from differences(one, other, f"{path}.{place}")
    elif isinstance(before, float) and isinstance(after, float):
        if not math.isclose(before, after, rel_tol=1e-12, abs_tol=1e-15):
            yield f"{path}: {before!r} -> {after!r}"
    elif before != after:
        yield f"{path}: {str(before)[:150]} -> {str(after)[:150]}"


if __name__ == "__main__":
    sys.exit(main())
