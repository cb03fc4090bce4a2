"""What holds of every checkpoint format, whoever adds it: these tests walk the registry, and a format that is in none."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sizing.errors import InvalidInput
from sizing.layout import formats
from sizing.layout.formats import FORMATS, CheckpointFormat, Mode
from sizing.layout.formats.base import FormatField
from sizing.layout.formats.registry import by_name
from sizing.layout.framework_defaults import FORMAT_OF_FRAMEWORK
from sizing.layout.saving_ranks import saving_ranks
from sizing.layout.size import METADATA, group_bytes
from sizing.report import answer
from sizing.run.demands.readings import STRATEGIES
from sizing.scenario import scenario_from
from sizing.sized import manifest_of, saved_by_rank_of, sized
from sizing.state.training import Framework
from tests.sizing.layout.toy_format import STAGE_FILES
from tests.sizing.layout.worlds import degrees, document, documents

TESTED = (*FORMATS.values(), STAGE_FILES)
each_format = pytest.mark.parametrize("saved_as", TESTED, ids=lambda each: each.name)
each_framework = pytest.mark.parametrize(
    ("saved_as", "framework"),
    [(each, framework) for each in TESTED for framework in each.frameworks],
    ids=lambda each: getattr(each, "name", each),
)


@pytest.fixture(autouse=True, scope="module")
def _a_format_of_somebody_else() -> Iterator[None]:
    FORMATS[STAGE_FILES.name] = STAGE_FILES
    yield
    del FORMATS[STAGE_FILES.name]


@each_framework
@given(data=st.data())
@settings(max_examples=25)
def test_writers_write_the_total_to_the_byte(
    saved_as: CheckpointFormat, framework: Framework, data: st.DataObject
) -> None:
    report = answer(scenario_from(data.draw(documents(saved_as, framework))))
    size, layout = report.checkpoint, report.layout
    assert sum(c.num_ranks * c.bytes_per_rank for c in layout.rank_classes) == size.total_bytes
    assert sum(c.num_ranks for c in layout.rank_classes) == layout.num_writers
    assert all(sum(f.count for f in c.files) > 0 for c in layout.rank_classes)
    assert size.num_files == sum(c.num_ranks * f.count for c in layout.rank_classes for f in c.files)
    assert size.total_bytes == size.logical_bytes + size.replicated_bytes
    assert sum(part.total_bytes for part in size.parts.values()) == size.total_bytes
    assert (METADATA in size.small_state_bytes) == saved_as.has_metadata
    assert (report.host_memory.gathered_bytes > 0) == bool(set(saved_as.gathered_parts) & set(size.parts))


@each_framework
@given(data=st.data())
@settings(max_examples=25)
def test_the_tensors_that_stand_in_several_files_make_what_is_replicated(
    saved_as: CheckpointFormat, framework: Framework, data: st.DataObject
) -> None:
    """With Adam: factored statistics of a cut tensor take more than those of the whole, wherever they stand."""
    question = data.draw(documents(saved_as, framework))
    question["training"]["optimizer"] = "adam"
    size = answer(scenario_from(question)).checkpoint
    assert sum(row.replicated_bytes for row in size.replicated) == size.replicated_bytes


@each_framework
@given(data=st.data())
@settings(max_examples=25)
def test_every_file_has_a_name_of_its_own_and_all_together_the_total(
    saved_as: CheckpointFormat, framework: Framework, data: st.DataObject
) -> None:
    scenario = scenario_from(data.draw(documents(saved_as, framework)))
    report, rows = answer(scenario), list(manifest_of(scenario))
    assert sum(row.bytes for row in rows) == report.checkpoint.total_bytes
    assert len(rows) == len({row.file for row in rows}) == report.checkpoint.num_files
    assert not any(re.search(r"[A-Z\[\]]", row.file) for row in rows)


@each_framework
@given(data=st.data())
@settings(max_examples=25)
def test_writers_stand_on_the_nodes_that_a_walk_over_them_finds(
    saved_as: CheckpointFormat, framework: Framework, data: st.DataObject
) -> None:
    scenario = scenario_from(data.draw(documents(saved_as, framework)))
    layout, writers = answer(scenario).layout, sized(scenario).laid_out.writers
    standing = list(saving_ranks(writers, scenario.parallelism, gpus_per_node=layout.gpus_per_node))
    assert len({saving.rank for saving in standing}) == len(standing) == layout.num_writers
    nodes = Counter(saving.node for saving in standing)
    assert (len(nodes), max(nodes.values())) == (layout.num_writing_nodes, layout.max_writers_per_node)


@each_framework
@given(data=st.data(), factor=st.integers(2, 5))
@settings(max_examples=25)
def test_more_data_parallel_replicas_save_the_same_bytes(
    saved_as: CheckpointFormat, framework: Framework, data: st.DataObject, factor: int
) -> None:
    """With Adam: FSDP's shards of factored statistics grow with their number, as their tensors are cut again."""
    question = data.draw(documents(saved_as, framework))
    question["training"]["optimizer"] = "adam"
    once = answer(scenario_from(question)).checkpoint
    question["parallelism"]["data"] *= factor
    more = answer(scenario_from(question)).checkpoint
    assert (more.logical_bytes, more.total_bytes) == (once.logical_bytes, once.total_bytes)


@each_framework
@given(data=st.data(), strategy=st.sampled_from(STRATEGIES))
@settings(max_examples=25)
def test_a_restore_reads_each_part_at_least_once(
    saved_as: CheckpointFormat, framework: Framework, data: st.DataObject, strategy: str
) -> None:
    question = data.draw(documents(saved_as, framework))
    question["checkpoint"]["restore"] = strategy
    report = answer(scenario_from(question))
    for name, part in report.checkpoint.parts.items():
        assert report.restore.parts[name].read_bytes >= part.total_bytes, name
    assert (METADATA in report.restore.parts) == saved_as.has_metadata


@each_framework
@given(data=st.data())
@settings(max_examples=25)
def test_all_ranks_together_save_every_tensor_as_often_as_the_format_says(
    saved_as: CheckpointFormat, framework: Framework, data: st.DataObject
) -> None:
    scenario = scenario_from(data.draw(documents(saved_as, framework)))
    asked, saved, found = sized(scenario), saved_by_rank_of(scenario), Counter[tuple[str, str]]()
    for saving in saved.ranks:
        tensors = saved.tensors(saving)
        assert sum(tensor.num_bytes for tensor in tensors) == saving.num_bytes
        assert len({(tensor.part, tensor.name) for tensor in tensors}) == len(tensors)
        for tensor in tensors:
            found[tensor.part, tensor.name.rsplit(".", 1)[0]] += tensor.num_bytes
    by_value = [part for part in asked.laid_out.parts if part.bytes_per_parameter is not None]
    expected = Counter[tuple[str, str]]()
    for part in by_value:
        for group in asked.model.inventory:
            name = "flat" if (part.name, "flat") in found else group.name
            copies = saved_as.num_copies(group, part.name, scenario.parallelism)
            expected[part.name, name] += copies * group_bytes(group, part)
    names = {part.name for part in by_value}
    assert {key: num_bytes for key, num_bytes in found.items() if key[0] in names} == expected


@each_framework
@pytest.mark.parametrize("mode", get_args(Mode))
def test_a_format_is_saved_in_its_modes_alone(saved_as: CheckpointFormat, framework: Framework, mode: Mode) -> None:
    question = document(saved_as, framework, {"data": 4}, checkpoint={"format": saved_as.name, "mode": mode})
    if mode in saved_as.modes:
        assert answer(scenario_from(question)).checkpoint.format == saved_as.name
    else:
        refused(question, f"checkpoint.mode must be {' or '.join(saved_as.modes)} with format {saved_as.name}")


@each_format
@pytest.mark.parametrize("framework", get_args(Framework))
def test_a_format_belongs_to_its_frameworks_alone(saved_as: CheckpointFormat, framework: Framework) -> None:
    question = document(saved_as, framework, {})
    if framework in saved_as.frameworks:
        assert answer(scenario_from(question)).checkpoint.total_bytes > 0
    else:
        refused(question, f"checkpoint.format must be one of .* with framework {framework}")


OWN_FIELDS: dict[FormatField, dict[str, Any]] = {
    "tensor": {"parallelism": {"tensor": 2}},
    "pipeline": {"parallelism": {"pipeline": 2}},
    "virtual_pipeline": {"parallelism": {"virtual_pipeline": 7}},
    "expert": {"parallelism": {"expert": 2, "data": 2}},
    "expert_tensor": {"parallelism": {"expert_tensor": 2, "data": 2}},
    "zero_stage": {"parallelism": {"zero_stage": 2}},
    "shard_group": {"parallelism": {"shard_group": 2, "data": 4}},
    "files_per_rank": {"checkpoint": {"files_per_rank": 2}},
    "distributed_optimizer": {"training": {"distributed_optimizer": True}},
}


@each_framework
@pytest.mark.parametrize("field", get_args(FormatField))
def test_a_field_that_a_format_does_not_take_is_refused(
    saved_as: CheckpointFormat, framework: Framework, field: FormatField
) -> None:
    given_fields = OWN_FIELDS[field]
    checkpoint = {"format": saved_as.name} | given_fields.get("checkpoint", {})
    question = document(saved_as, framework, given_fields.get("parallelism", {}), checkpoint=checkpoint)
    question["training"] |= given_fields.get("training", {})
    if field in saved_as.takes:
        assert answer(scenario_from(question)).checkpoint.total_bytes > 0
    else:
        refused(question, rf"\.{field} (must|is a field of)")


@each_framework
@given(data=st.data())
@settings(max_examples=25)
def test_a_checkpoint_is_read_into_another_layout_as_far_as_its_format_reshards(
    saved_as: CheckpointFormat, framework: Framework, data: st.DataObject
) -> None:
    saved, other = data.draw(degrees(saved_as)), data.draw(degrees(saved_as))
    more_replicas = saved | {"data": 2 * saved["data"]}
    into = {"everything": other, "replicas": more_replicas, "nothing": saved}[saved_as.reshards]
    report = answer(scenario_from(restored(saved_as, framework, saved, into)))
    for name, part in report.checkpoint.parts.items():
        assert report.restore.parts[name].read_bytes >= part.logical_bytes
    if saved_as.reshards != "everything" and other["tensor"] != saved["tensor"]:
        refused(restored(saved_as, framework, saved, other), "checkpoint.restore_parallelism.tensor must equal")
    if saved_as.reshards == "nothing":
        refused(restored(saved_as, framework, saved, more_replicas), "checkpoint.restore_parallelism.data must equal")


def test_every_framework_has_a_format_of_its_own() -> None:
    for framework in get_args(Framework):
        assert framework in FORMATS[FORMAT_OF_FRAMEWORK[framework]].frameworks


def test_every_format_that_a_module_makes_is_in_the_registry() -> None:
    modules = [
        importlib.import_module(f"{formats.__name__}.{found.name}") for found in pkgutil.iter_modules(formats.__path__)
    ]
    made = {id(each) for module in modules for each in vars(module).values() if isinstance(each, CheckpointFormat)}
    assert {id(each) for each in FORMATS.values()} == made | {id(STAGE_FILES)}


def test_two_formats_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must be unique, got 'stage-files' twice"):
        by_name(STAGE_FILES, dataclasses.replace(STAGE_FILES))


@each_format
def test_a_format_says_in_words_what_its_files_its_writers_and_its_source_are(saved_as: CheckpointFormat) -> None:
    assert re.search(r"\.(pt|distcp|safetensors)\b|\bone file\b", saved_as.files), (
        "the name of its files, or that it is one"
    )
    assert re.search(r"\branks?\b", saved_as.writers), "which ranks write"
    assert re.search(r"\w+, \w+|project", saved_as.source), "a project and where in it, or this project"


def restored(
    saved_as: CheckpointFormat, framework: Framework, saved: dict[str, Any], into: dict[str, Any]
) -> dict[str, Any]:
    return document(saved_as, framework, saved, checkpoint={"format": saved_as.name, "restore_parallelism": into})


def refused(question: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        answer(scenario_from(question))
