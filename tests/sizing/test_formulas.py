"""Every public function that returns a number states its source and an example that a reader can recompute."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator

import pytest

import sizing
from sizing import cluster, layout, model, run, state, storage, training
from sizing.explore import clusters
from sizing.layout import formats
from sizing.run import demands, goodput, restore, tiers

NUMBERS = {"int", "float", "Numbers"}
STEPS = (model, state, cluster, layout, formats, training, storage, run, demands, goodput, restore, tiers, clusters)


def public_functions() -> Iterator[Callable[..., object]]:
    """Of every module of every step of the calculation."""
    for step in STEPS:
        for found in pkgutil.iter_modules(step.__path__):
            module = importlib.import_module(f"{step.__name__}.{found.name}")
            for name, member in vars(module).items():
                if inspect.isfunction(member) and member.__module__ == module.__name__ and name[0] != "_":
                    yield member


FORMULAS = [f for f in public_functions() if inspect.signature(f).return_annotation in NUMBERS]


@pytest.mark.parametrize("formula", FORMULAS, ids=lambda f: f.__qualname__)
def test_a_formula_states_its_source_and_an_example(formula: Callable[..., object]) -> None:
    text = inspect.getdoc(formula) or ""
    assert "Source:" in text
    assert ">>>" in text


def test_the_walk_finds_the_formulas_of_every_step() -> None:
    found = {formula.__name__ for formula in FORMULAS}
    known = {"num_parameters", "moment_bytes", "copies_in_a_replica", "container_bytes", "shared_seconds"}
    assert known | {"goodput_fraction", "overhead_fraction", "min_bytes_per_second", "mtbf_seconds"} <= found
    assert sizing.__version__
