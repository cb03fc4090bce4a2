"""Every public function that returns a number states its source and an example that a reader can recompute."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from sizing import cluster, layout, model, questions, run, state, storage, training

STEPS = (model, state, cluster, layout, training, storage, run, questions)
NUMBER = re.compile(r"int|float|Numbers|Floats|np\.(int_|intp|float64)")
CONTAINER = re.compile(r"(list|tuple|npt\.NDArray)\[")


def modules() -> Iterator[ModuleType]:
    """Of every room of every step of the calculation."""
    for step in STEPS:
        for found in pkgutil.walk_packages(step.__path__, f"{step.__name__}."):
            yield importlib.import_module(found.name)


def is_formula(function: Callable[..., object]) -> bool:
    """Whether a function returns numbers and nothing else: one, an array, or several of them."""
    returned = str(inspect.signature(function).return_annotation)
    kinds = {kind.strip() for kind in re.split(r"[,|]", CONTAINER.sub("", returned).replace("]", ""))}
    return kinds != {"None"} and all(map(NUMBER.fullmatch, kinds - {"None", "..."}))


def public_functions() -> Iterator[Callable[..., object]]:
    for module in modules():
        for name, member in vars(module).items():
            if inspect.isfunction(member) and member.__module__ == module.__name__ and name[0] != "_":
                yield member


FORMULAS = [function for function in public_functions() if is_formula(function)]


@pytest.mark.parametrize("formula", FORMULAS, ids=lambda f: f.__qualname__)
def test_a_formula_states_its_source_and_an_example(formula: Callable[..., object]) -> None:
    text = inspect.getdoc(formula) or ""
    assert "Source:" in text
    assert ">>>" in text


def test_the_walk_finds_the_formulas_of_every_step() -> None:
    found = {formula.__name__ for formula in FORMULAS}
    counted = {"num_parameters", "moment_bytes", "copies_in_a_replica", "container_bytes", "layer_activation_bytes"}
    timed = {"shared_seconds", "exchange_seconds", "mtbf_seconds", "goodput_fraction", "overhead_fraction"}
    fitted = {"log_seconds", "losses", "bounds", "bootstrap", "student_over_normal", "min_rate"}
    explored = {"fair_rates", "peak", "pareto_front", "collision_fraction", "read_bytes_per_second_for_recovery"}
    assert counted | timed | fitted | explored | {"min_bytes_per_second"} <= found
