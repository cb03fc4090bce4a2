"""Every public formula states its source and an example that a reader can recompute."""

import inspect
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from sizing.layout import placement, replication, shards
from sizing.model import formulas, inventory
from sizing.run import failures, interval, overhead, requirements
from sizing.state import optimizers
from sizing.storage import transfer

MODULES_OF_FORMULAS = (formulas, transfer, interval)
FORMULAS_ELSEWHERE = (
    inventory.num_parameters,
    shards.shard_of,
    placement.place_writers,
    replication.copies_in_files,
    optimizers.moment_bytes,
    failures.mtbf_seconds,
    overhead.overhead_fraction,
    requirements.least_bytes_per_second,
)


def public_functions(module: ModuleType) -> Iterator[Callable[..., object]]:
    for name, member in vars(module).items():
        if inspect.isfunction(member) and member.__module__ == module.__name__ and not name.startswith("_"):
            yield member


FORMULAS = [f for module in MODULES_OF_FORMULAS for f in public_functions(module)] + list(FORMULAS_ELSEWHERE)


@pytest.mark.parametrize("formula", FORMULAS, ids=lambda f: f.__name__)
def test_a_formula_states_its_source_and_an_example(formula: Callable[..., object]) -> None:
    text = inspect.getdoc(formula) or ""
    assert "Source:" in text
    assert ">>>" in text


def test_the_walk_finds_formulas() -> None:
    assert len(FORMULAS) >= 15
