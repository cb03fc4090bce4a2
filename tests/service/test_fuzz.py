"""Scenarios with fields at their bounds: answered or refused, within the time and memory of one heavy question."""

import copy
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from service.compute.worker import ComputeWorker
from service.errors import TakesTooLong
from sizing.errors import InvalidInput
from sizing.scenario import REFERENCE_SCENARIO, Scenario
from tests.service.computed import answered

MAX_SECONDS = 20
MAX_BYTES = 1024**3
ARCHITECTURE = {
    "family": "mixtral",
    "hidden_size": 4096,
    "num_layers": 32,
    "num_attention_heads": 32,
    "num_kv_heads": 8,
    "ffn_hidden_size": 14336,
    "vocab_size": 32000,
    "num_experts": 8,
    "num_experts_per_token": 2,
}
BASES: list[dict[str, Any]] = [
    REFERENCE_SCENARIO,
    {"model": {"num_parameters": 10**12}},
    {"model": {"architecture": ARCHITECTURE}, "parallelism": {"expert": 8, "data": 8}},
    {"model": {"preset": "deepseek-v3"}, "training": {"framework": "fsdp2"}, "parallelism": {"data": 64}},
]
Path = tuple[str, ...]


def bounds() -> dict[Path, list[Any]]:
    """The bounds of every number of a Scenario, and every word of each choice, by the path of its field."""
    schema = Scenario.model_json_schema()
    return {path: values for path, values in _leaves(schema, schema["$defs"], ()) if values}


def _leaves(schema: dict[str, Any], definitions: dict[str, Any], path: Path) -> Iterator[tuple[Path, list[Any]]]:
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    if "calibration" in path:
        return  # a document of its own
    for name, field in schema.get("properties", {}).items():
        yield from _leaves(field, definitions, (*path, name))
    alternatives = [schema, *schema.get("anyOf", []), *schema.get("allOf", [])]
    for alternative in alternatives[1:]:
        if "$ref" in alternative:
            yield from _leaves(alternative, definitions, path)
    names = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    numbers = [found[name] for found in alternatives for name in names if name in found]
    yield path, numbers + [word for found in alternatives for word in found.get("enum", [])]


BOUNDS = bounds()


def at_bounds(base: dict[str, Any], values: dict[Path, Any]) -> dict[str, Any]:
    document = copy.deepcopy(base)
    for path, value in values.items():
        block = document
        for name in path[:-1]:
            block = block.setdefault(name, {})
            if not isinstance(block, dict):
                break
        else:
            block[path[-1]] = value
    return document


@pytest.fixture(scope="module")
def worker() -> Iterator[ComputeWorker]:
    made = ComputeWorker(max_seconds=MAX_SECONDS, max_bytes=MAX_BYTES)
    yield made
    made.stop()


def ask(worker: ComputeWorker, documents: list[dict[str, Any]]) -> None:
    """Every document is answered or refused; none takes too much."""
    num_answered, slowest_seconds, slowest = 0, 0.0, documents[0]
    for document in documents:
        start = time.perf_counter()
        try:
            worker.ask(answered, (document,))
            num_answered += 1
        except TakesTooLong as error:
            raise AssertionError(document) from error
        except InvalidInput:
            continue
        seconds = time.perf_counter() - start
        if seconds > slowest_seconds:
            slowest_seconds, slowest = seconds, document
    print(f"\n{num_answered:,} of {len(documents):,} answered; the slowest took {slowest_seconds:.2f} s: {slowest}")
    assert num_answered > len(documents) / 50


def test_every_field_of_a_scenario_has_its_bounds() -> None:
    assert len(BOUNDS) > 60
    assert BOUNDS["parallelism", "tensor"][0] == 1
    assert "bf16-mixed" in BOUNDS["training", "precision"]


@pytest.mark.long
def test_each_field_at_each_bound_is_answered_or_refused(worker: ComputeWorker) -> None:
    """Each of one scenario after the other; of all of them in the long run."""
    values = [(path, value) for path, of_field in BOUNDS.items() for value in of_field]
    ask(worker, [at_bounds(BASES[at % len(BASES)], {path: value}) for at, (path, value) in enumerate(values)])


@pytest.mark.long
def test_each_field_of_each_scenario_at_each_bound_is_answered_or_refused(worker: ComputeWorker) -> None:
    ask(
        worker,
        [at_bounds(base, {path: value}) for base in BASES for path, values in BOUNDS.items() for value in values],
    )


@pytest.mark.exhaustive
def test_many_fields_at_their_bounds_are_answered_or_refused(worker: ComputeWorker) -> None:
    draw = random.Random(0)  # noqa: S311 - to repeat, not a secret
    documents = []
    for _ in range(20_000):
        paths = draw.sample(list(BOUNDS), draw.randint(2, 5))
        documents.append(at_bounds(draw.choice(BASES), {path: draw.choice(BOUNDS[path]) for path in paths}))
    ask(worker, documents)
