"""Law: a value, format or strategy that a refusal or a warning names as its remedy works when it is typed back."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from sizing.errors import InvalidInput, Problem
from sizing.field_paths import with_fields
from sizing.layout.formats import FORMATS
from sizing.report import answer
from sizing.run.remedies import BEYOND_CACHE
from sizing.scenario import scenario_from
from sizing.sized_layout import size_layout

_NODE: dict[str, Any] = {"gpus_per_node": 8, "gpu": "h100", "pcie_generation": 5}
_SMALL: dict[str, Any] = {"model": {"preset": "llama-3.1-8b"}, "parallelism": {"data": 8}}
_HOST_MEMORY: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "whole shares of torch-dist": ("60 GB", {"framework": "megatron"}, {"format": "torch-dist", "mode": "async"}),
    "whole shares of FSDP": ("150 GB", {"framework": "fsdp2"}, {"mode": "async"}),
    "gathered": ("100 GB", {"framework": "fsdp2"}, {"format": "full"}),
    "read whole": ("150 GB", {"framework": "deepspeed"}, {"mode": "async"}),
    "read whole by all replicas": ("300 GB", {"framework": "megatron"}, {"format": "megatron"}),
    "deltas": ("140 GB", {"framework": "fsdp2"}, {"reduction": {"delta": {"full_every": 4, "fraction": 0.1}}}),
    "tiers": (
        "400 GB",
        {"framework": "fsdp2"},
        {
            "mode": "async",
            "interval_seconds": 600,
            "tiers": [{"kind": "host-memory", "keep": 3, "interval_seconds": 60, "recovered_fraction": 0.9}],
        },
    ),
}
_WAYS = {
    "give checkpoint.staging_bytes (.+) or less": "checkpoint.staging_bytes",
    "set checkpoint.mode (.+)": "checkpoint.mode",
    "use checkpoint.format (.+)": "checkpoint.format",
    "set checkpoint.restore (.+)": "checkpoint.restore",
    "give the tiers in memory keep (.+)": "checkpoint.tiers.0.keep",
}
_REMOVED: dict[str, dict[str, Any]] = {
    "remove the tiers in memory": {"checkpoint.tiers": []},
    "remove checkpoint.reduction.delta": {"checkpoint.reduction": None},
}


@pytest.mark.parametrize("name", _HOST_MEMORY)
def test_what_a_warning_of_host_memory_names_makes_it_fit(name: str) -> None:
    capacity, training, checkpoint = _HOST_MEMORY[name]
    document = _SMALL | {
        "training": training,
        "checkpoint": checkpoint,
        "cluster": {"node_spec": _NODE | {"host_memory_bytes": capacity}},
    }
    warnings = _warnings_of_host_memory(document)
    num_ways = 0
    for warning in warnings:
        for way in warning.rpartition(". ")[2].split(", or "):
            if way == "Use nodes with more host memory":
                continue
            num_ways += 1
            left = _warnings_of_host_memory(with_fields(document, _fields_of(way[0].lower() + way[1:])))
            assert warning.partition(" needs ")[0] not in [each.partition(" needs ")[0] for each in left], (way, left)
            assert len(left) < len(warnings), (way, left)
    assert num_ways


def test_a_warning_of_host_memory_names_more_memory_where_no_field_lowers_the_need() -> None:
    """Synchronous saves in torch-dist copy the whole share, and its classic format reads more than it saves here."""
    document = _SMALL | {
        "training": {"framework": "megatron"},
        "checkpoint": {"format": "torch-dist", "mode": "sync"},
        "cluster": {"node_spec": _NODE | {"host_memory_bytes": "100 GB"}},
    }
    (warning,) = _warnings_of_host_memory(document)
    assert warning.endswith(". Use nodes with more host memory")
    assert not _warnings_of_host_memory(with_fields(document, {"cluster.node_spec.host_memory_bytes": "400 GB"}))


def _warnings_of_host_memory(document: dict[str, Any]) -> list[str]:
    return [each for each in answer(document).warnings if "of host memory per node" in each]


def _fields_of(way: str) -> dict[str, Any]:
    if way in _REMOVED:
        return _REMOVED[way]
    return next({field: found[1]} for pattern, field in _WAYS.items() if (found := re.fullmatch(pattern, way)))


_FRAMEWORKS = sorted({framework for each in FORMATS.values() for framework in each.frameworks})
_DEGREES: tuple[dict[str, int], ...] = (
    {"data": 8},
    {"data": 8, "pipeline": 4, "tensor": 2},
    {"data": 8, "shard_group": 4},
    {"data": 8, "zero_stage": 1},
)


def test_formats_and_modes_that_a_refusal_names_are_not_refused() -> None:
    num_tried = 0
    cases = itertools.product(_FRAMEWORKS, ("sync", "async"), _DEGREES, (None, True))
    for framework, mode, degrees, divided in cases:
        for saved_as in (name for name, each in FORMATS.items() if framework in each.frameworks):
            document = {
                "model": {"preset": "llama-3.1-8b"},
                "training": {"framework": framework} | ({"distributed_optimizer": True} if divided else {}),
                "parallelism": degrees,
                "checkpoint": {"format": saved_as, "mode": mode},
            }
            problem = _refusal(document)
            if problem is None:
                continue
            names = re.search(r"or use format (.+)$", problem.remedy)
            for name in names[1].split(" or ") if names else ():
                num_tried += 1
                assert _refusal(with_fields(document, {"checkpoint.format": name})) is None, (document, name)
            if to := re.match(r"set it to (\w+)", problem.remedy):
                num_tried += 1
                again = _refusal(with_fields(document, {problem.field: to[1]}))
                assert again is None or again.field != problem.field, (document, to[1])
            elif problem.field == "checkpoint.mode":
                raise AssertionError(problem)
    assert num_tried > 20


def _refusal(document: dict[str, Any]) -> Problem | None:
    try:
        size_layout(scenario_from(document))
    except InvalidInput as error:
        return error.problems[0]
    return None


@pytest.mark.parametrize("checkpoint", [{"mode": "sync"}, {"mode": "async", "staging_bytes": 10**9}])
def test_a_stall_that_a_full_cache_decides_names_the_rate_beyond_it(checkpoint: dict[str, Any]) -> None:
    document: dict[str, Any] = {
        "model": {"preset": "llama-3.1-70b"},
        "training": {"framework": "fsdp2"},
        "parallelism": {"data": 64},
        "cluster": {"node": "dgx-h100"},
        "checkpoint": checkpoint | {"cached_plans": True},
        "targets": {"max_stall_seconds": 20},
    }
    rates = {"write_bytes_per_second": "50 GB/s", "write_cache_bytes": "100 GB"}
    slow = with_fields(document, {"storage.profile": rates, BEYOND_CACHE: "1 GB/s"})
    (remedy,) = (each.remedy for each in answer(slow).targets if each.target == "max_stall_seconds")
    named = re.search(rf"; with {re.escape(BEYOND_CACHE)} ([0-9.]+ GB/s), the rates given would meet it$", remedy or "")
    assert named, remedy
    after = answer(with_fields(slow, {BEYOND_CACHE: named[1]}))
    assert [each.met for each in after.targets if each.target == "max_stall_seconds"] == [True]
