"""Every rule that a line sets aside has its reason beside it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("sizing", "io_bench", "mcp_server", "service", "service_client", "tests", "scripts")
SUPPRESSION = re.compile(r"# (?:noqa|type: ignore)\b(?:\[[a-z, -]+\]|: [A-Z]+[0-9]+(?:, [A-Z]+[0-9]+)*)?(?P<rest>.*)")


def without_reason(source: str) -> list[str]:
    """The lines that end where the last suppression does."""
    return [
        line
        for line in source.splitlines()
        if (found := list(SUPPRESSION.finditer(line))) and not re.search(r"[A-Za-z]{2}", found[-1]["rest"])
    ]


def test_every_suppression_has_a_reason() -> None:
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert [(str(path), line) for path in files for line in without_reason(path.read_text())] == []


def test_a_suppression_without_a_reason_is_found() -> None:
    mark = "# no" + "qa: S101"
    assert without_reason(f"a()  {mark}\nb()  {mark} - it is set\n") == [f"a()  {mark}"]
