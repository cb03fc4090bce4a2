"""Every number that the code has by a name says beside it why it is that number."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted(
    path
    for room in ("sizing", "io_bench", "mcp_server", "service", "service_client")
    for path in (ROOT / room).rglob("*.py")
)
UNIT = re.compile(r"(SECONDS|BYTES)_PER_(HOUR|DAY|GIGABYTE|TERABYTE|GIBIBYTE)|_?[GT]IB")
"""Constants that are what their name says."""


def is_number(value: ast.expr) -> bool:
    """Whether a value is written as a number, as arithmetic of numbers, or as text with a unit that is parsed."""
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id in ("parse_bytes", "parse_seconds")
    if isinstance(value, ast.Constant):
        return isinstance(value.value, int | float) and not isinstance(value.value, bool)
    if isinstance(value, ast.Tuple):
        return all(map(is_number, value.elts))
    if isinstance(value, ast.BinOp):
        return is_number(value.left) or is_number(value.right)
    return isinstance(value, ast.UnaryOp) and is_number(value.operand)


def named(statement: ast.stmt) -> str | None:
    """The name of the constant that a statement defines, if it is a number."""
    if isinstance(statement, ast.Assign):
        target, value = statement.targets[0], statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        target, value = statement.target, statement.value
    else:
        return None
    name = ast.unparse(target)
    return name if name.isupper() and is_number(value) else None


def is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def unreasoned(source: str) -> Iterator[str]:
    """Constants without a text below, theirs or that of the lines that follow without a gap, or a comment above."""
    lines = source.splitlines()
    body = ast.parse(source).body
    for place, statement in enumerate(body):
        name = named(statement)
        if name is None or all(map(UNIT.fullmatch, re.findall(r"\w+", name))) or "#" in lines[statement.lineno - 2]:
            continue
        last = place
        while (
            last + 1 < len(body) and named(body[last + 1]) and (body[last].end_lineno or 0) + 1 == body[last + 1].lineno
        ):
            last += 1
        if last + 1 == len(body) or not is_text(body[last + 1]):
            yield name


def test_every_number_says_why() -> None:
    found = [f"{path.relative_to(ROOT)}: {name}" for path in MODULES for name in unreasoned(path.read_text())]
    assert found == []


def test_a_number_without_a_reason_is_found() -> None:
    found = unreasoned(
        'A = 1\n"""Why."""\nB = 2\nC = 3\n"""Why both."""\n\nD = 4\n\nE = -5.0\n# why\nF = 6\nSECONDS_PER_DAY = 7\n'
    )
    assert list(found) == ["D", "E"]
