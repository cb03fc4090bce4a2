"""What holds of every framework, whoever adds it: these tests walk the registry."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path
from typing import get_args

import pytest

import io_bench
import service
import sizing
from sizing import frameworks
from sizing.errors import InvalidInput
from sizing.frameworks import FRAMEWORKS, Framework
from sizing.layout.formats import FORMATS, formats_of
from sizing.report import answer
from sizing.scenario import Scenario, scenario_from
from sizing.state.training import FrameworkName, Precision
from tests.sizing.layout.test_format_types import names_asked

each_framework = pytest.mark.parametrize("framework", FRAMEWORKS.values(), ids=lambda each: each.name)


def test_the_registry_has_the_names_that_a_scenario_takes_in_their_order() -> None:
    assert tuple(FRAMEWORKS) == get_args(FrameworkName)
    assert all(name == framework.name for name, framework in FRAMEWORKS.items())


def test_every_framework_that_a_module_makes_is_in_the_registry() -> None:
    modules = [
        importlib.import_module(f"{frameworks.__name__}.{found.name}")
        for found in pkgutil.iter_modules(frameworks.__path__)
    ]
    made = {id(each) for module in modules for each in vars(module).values() if isinstance(each, Framework)}
    assert {id(each) for each in FRAMEWORKS.values()} == made


@each_framework
def test_a_framework_says_what_it_is_and_where_that_was_read(framework: Framework) -> None:
    assert all(text == text.strip() and text for text in (framework.title, framework.version, framework.source))
    assert framework.loading.strip()
    assert len({each.title for each in FRAMEWORKS.values()}) == len(FRAMEWORKS)


@each_framework
def test_a_framework_saves_in_the_format_that_is_its_default(framework: Framework) -> None:
    assert FORMATS[framework.format] in formats_of(framework.name)


@each_framework
def test_a_framework_trains_in_the_precisions_of_which_it_says_what_it_keeps(framework: Framework) -> None:
    document = {"model": {"preset": "llama-3.1-8b"}, "parallelism": {"data": 8}}
    for precision in get_args(Precision):
        training = {"framework": framework.name, "precision": precision}
        if precision not in framework.keeps:
            with pytest.raises(InvalidInput, match=r"training\.precision must be one of"):
                answer(document | {"training": training})
            continue
        parts, kept = answer(document | {"training": training}).checkpoint.parts, framework.keeps[precision]
        assert set(parts) <= {*kept.dtypes, "master"}
        assert {"weights", "moments"} <= set(kept.dtypes)
        assert kept.gradient_bytes in (2, 4)
        assert kept.optimizer_gradient_bytes in (0, 4)


@each_framework
def test_a_scenario_that_leaves_fields_open_gets_what_the_framework_ships(framework: Framework) -> None:
    document = {"training": {"framework": framework.name}, "parallelism": {"pipeline": 2, "data": 2}}
    document |= {"reliability": {"mtbf_seconds": "9h"}}  # the block has no default of its own
    scenario = scenario_from(document | {"model": {"preset": "llama-3.1-8b"}})
    said = {row.field: row for row in scenario.assumptions}
    for each in framework.defaults:
        block, name = each.field.split(".")
        assert getattr(getattr(scenario, block), name) == each.value
        assert said[each.field].reason == f"default of {framework.name}, {each.setting}"
    assert set(said) >= {row.field for row in framework.not_taken.values()}


@each_framework
def test_what_a_framework_ships_is_about_fields_of_a_scenario(framework: Framework) -> None:
    for path in (
        *(each.field for each in framework.defaults),
        *(path for paths in framework.not_taken for path in paths),
    ):
        block, name = path.split(".")
        annotation = Scenario.model_fields[block].annotation
        (model,) = [each for each in (annotation, *get_args(annotation)) if hasattr(each, "model_fields")]
        assert name in model.model_fields


ASKS_ALL_THE_SAME = {
    ("io_bench/checks/validation/comparison.py", "deepspeed"): "how a validation case saves",
    ("sizing/validation/incidents.py", "ddp"): "a row of published facts",
}


def test_no_module_outside_asks_for_a_framework_by_its_name() -> None:
    root = Path(sizing.__path__[0]).parent
    asking = {
        (str(path.relative_to(root)), name)
        for package in (sizing, io_bench, service)
        for path in Path(package.__path__[0]).rglob("*.py")
        if "importers" not in path.parts  # each reads the config files of the frameworks that it names
        for name in names_asked(ast.parse(path.read_text(encoding="utf-8")))
        if name in FRAMEWORKS
    }
    assert asking == set(ASKS_ALL_THE_SAME)
