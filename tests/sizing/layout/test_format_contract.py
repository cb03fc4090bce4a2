"""What holds of every checkpoint format, whoever adds it: these tests walk the registry, and a format that is in none."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import pkgutil
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing.errors import InvalidInput
from sizing.layout import formats
from sizing.layout.containers import METADATA
from sizing.layout.files import SavingRank, count_files, saving_ranks
from sizing.layout.formats import FORMATS, CheckpointFormat, Mode, formats_of
from sizing.layout.formats.base import FormatField
from sizing.layout.formats.full import HF_TRAINER
from sizing.layout.formats.registry import by_name
from sizing.layout.holders import rank_shards
from sizing.layout.size import PartSize, group_bytes
from sizing.layout.trained_model import trained_inventory
from sizing.report import answer
from sizing.run.evaluation import evaluate
from sizing.run.read_plan import RESTORE_STRATEGIES
from sizing.run.restore import RestoredPart
from sizing.scenario import scenario_from
from sizing.sized_layout import every_file_of, manifest_of, saved_by_rank_of, size_layout
from sizing.state import StatePart
from sizing.state.saved_state import PartName
from sizing.state.training import FrameworkName
from tests.examples import examples
from tests.sizing.layout.toy_format import STAGE_FILES
from tests.sizing.layout.worlds import degrees, document, documents, whole

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
@examples(25)
def test_writers_write_the_total_to_the_byte(
    saved_as: CheckpointFormat, framework: FrameworkName, data: st.DataObject
) -> None:
    scenario = scenario_from(data.draw(documents(saved_as, framework)))
    report, checkpoint_layout = answer(scenario), size_layout(scenario).checkpoint_layout
    saved_as, gathered = checkpoint_layout.saved_as, checkpoint_layout.gathered_parts
    size, layout = report.checkpoint, report.layout
    assert sum(c.num_ranks * c.bytes_per_rank for c in layout.rank_classes) == size.total_bytes
    assert sum(c.num_ranks for c in layout.rank_classes) == layout.num_writers
    assert all(sum(f.count for f in c.files) > 0 for c in layout.rank_classes)
    assert size.num_rank_files == sum(c.num_ranks * f.count for c in layout.rank_classes for f in c.files)
    assert size.total_bytes == size.logical_bytes + size.replicated_bytes
    assert sum(part.total_bytes for part in size.parts.values()) == size.total_bytes
    assert (METADATA in size.small_state_bytes) == (saved_as.planning is not None)
    assert (report.host_memory.gathered_bytes > 0) == bool(set(gathered) & set(size.parts))


@each_framework
@given(data=st.data())
@examples(25)
def test_the_tensors_that_stand_in_several_files_make_what_is_replicated(
    saved_as: CheckpointFormat, framework: FrameworkName, data: st.DataObject
) -> None:
    """With Adam: factored statistics of a cut tensor take more than those of the whole, wherever they stand."""
    question = data.draw(documents(saved_as, framework))
    question["training"]["optimizer"] = "adam"
    size = size_layout(scenario_from(question)).checkpoint_layout.size
    assert sum(row.replicated_bytes for row in size.replicated) == size.replicated_bytes


@each_framework
@given(data=st.data())
@examples(25)
def test_every_file_has_a_name_of_its_own_and_all_together_the_total(
    saved_as: CheckpointFormat, framework: FrameworkName, data: st.DataObject
) -> None:
    scenario = scenario_from(data.draw(documents(saved_as, framework)))
    size, rows = size_layout(scenario).checkpoint_layout.size, list(manifest_of(scenario))
    assert sum(row.tensor_bytes for row in rows) == size.total_bytes
    assert len(rows) == len({row.file for row in rows}) == size.num_rank_files
    assert not any(re.search(r"[A-Z\[\]]", row.file) for row in rows)
    every = [row.file for row in every_file_of(scenario)]
    assert len(every) == len(set(every)) == size.num_files


@each_framework
@given(data=st.data())
@examples(25)
def test_writers_stand_on_the_nodes_that_a_walk_over_them_finds(
    saved_as: CheckpointFormat, framework: FrameworkName, data: st.DataObject
) -> None:
    scenario = scenario_from(data.draw(documents(saved_as, framework)))
    checkpoint_layout = size_layout(scenario).checkpoint_layout
    layout, writers = checkpoint_layout.layout, checkpoint_layout.writers
    standing = list(saving_ranks(writers, scenario.parallelism, gpus_per_node=layout.gpus_per_node))
    assert len({saving.rank for saving in standing}) == len(standing) == layout.num_writers
    nodes = Counter(saving.node for saving in standing)
    assert (len(nodes), max(nodes.values())) == (layout.num_writing_nodes, layout.max_writers_per_node)


@each_framework
@given(data=st.data(), factor=st.integers(2, 5))
@examples(25)
def test_more_data_parallel_replicas_save_the_same_bytes(
    saved_as: CheckpointFormat, framework: FrameworkName, data: st.DataObject, factor: int
) -> None:
    """With Adam: FSDP's shards of factored statistics grow with their number, as their tensors are cut again.

    A file that repeats the share of a data rank repeats less where the shares are smaller.
    """
    question = data.draw(documents(saved_as, framework))
    question["training"]["optimizer"] = "adam"
    once, repeated_once = size_layout(scenario_from(question)).checkpoint_layout.size, repeated_bytes(question)
    question["parallelism"]["data"] *= factor
    more, repeated_more = size_layout(scenario_from(question)).checkpoint_layout.size, repeated_bytes(question)
    assert more.logical_bytes == once.logical_bytes
    assert more.total_bytes - repeated_more == once.total_bytes - repeated_once
    assert repeated_more <= repeated_once


def repeated_bytes(question: dict[str, Any]) -> int:
    writers = size_layout(scenario_from(question)).checkpoint_layout.writers
    return sum(n * file.repeated_bytes for n, file in count_files(writers))


@each_framework
@given(data=st.data(), strategy=st.sampled_from(RESTORE_STRATEGIES))
@examples(25)
def test_a_restore_reads_each_part_at_least_once(
    saved_as: CheckpointFormat, framework: FrameworkName, data: st.DataObject, strategy: str
) -> None:
    question = data.draw(documents(saved_as, framework))
    question["checkpoint"]["restore"] = strategy
    saved, read = parts_of(question)
    for name, part in saved.items():
        needed = part.logical_bytes if saved_as is HF_TRAINER else part.total_bytes  # of its weights it reads one file
        assert read[name].read_bytes >= needed, name
    assert (METADATA in read) == (saved_as.planning is not None)


@each_framework
@given(data=st.data())
@examples(25)
def test_all_ranks_together_save_every_tensor_as_often_as_the_format_says(
    saved_as: CheckpointFormat, framework: FrameworkName, data: st.DataObject
) -> None:
    scenario = scenario_from(data.draw(documents(saved_as, framework)))
    asked, saved, found = size_layout(scenario), saved_by_rank_of(scenario), Counter[tuple[str, str]]()
    for saving in saved.ranks:
        tensors = saved.tensors(saving)
        assert sum(tensor.num_bytes for tensor in tensors) == saving.num_bytes
        assert len({(tensor.part, tensor.name) for tensor in tensors}) == len(tensors)
        for tensor in tensors:
            found[tensor.part, tensor.name.rsplit(".", 1)[0]] += tensor.num_bytes
    by_value = [part for part in asked.checkpoint_layout.parts if part.bytes_per_parameter is not None]
    expected = Counter[tuple[str, str]]()
    for part in by_value:
        for group in trained_inventory(asked.model.inventory, scenario.training):
            name = "flat" if (part.name, "flat") in found else group.name
            copies = asked.checkpoint_layout.saved_as.num_copies(group, part.name, scenario.parallelism)
            expected[part.name, name] += copies * group_bytes(group, part)
    expected.update(repeated(saved.ranks, by_value, set(found)))
    names = {part.name for part in by_value}
    assert {key: num_bytes for key, num_bytes in found.items() if key[0] in names} == expected


def repeated(
    ranks: Iterable[SavingRank], parts: list[StatePart], found: Collection[tuple[str, str]]
) -> Counter[tuple[str, str]]:
    """What files say that they repeat, by part and tensor."""
    again = Counter[tuple[str, str]]()
    for saving, part in itertools.product(ranks, parts):
        sides = rank_shards(saving.writer.span, saving.parallelism, saving.inner)
        for file in saving.writer.files:
            held = (file.dense, file.repeats_dense), (file.expert, file.repeats_expert)
            for shards, (part_bytes, repeats) in zip(sides, held, strict=True):
                if part.name not in repeats or not part_bytes:
                    continue
                if (part.name, "flat") in found:
                    again[part.name, "flat"] += part_bytes[part.name]
                else:
                    for shard in shards:
                        again[part.name, shard.name] += shard.parameters * (part.bytes_per_parameter or 0)
    return again


@each_framework
@pytest.mark.parametrize("mode", get_args(Mode))
def test_a_format_is_saved_in_its_modes_alone(saved_as: CheckpointFormat, framework: FrameworkName, mode: Mode) -> None:
    question = document(saved_as, framework, {"data": 4}, checkpoint={"format": saved_as.name, "mode": mode})
    if mode in saved_as.modes:
        assert size_layout(scenario_from(question)).checkpoint_layout.size.format == saved_as.name
    else:
        refused(question, f"checkpoint.mode must be {' or '.join(saved_as.modes)} with format {saved_as.name}")


@each_format
@pytest.mark.parametrize("framework", get_args(FrameworkName))
def test_a_format_belongs_to_its_frameworks_alone(saved_as: CheckpointFormat, framework: FrameworkName) -> None:
    question = document(saved_as, framework, {})
    gathers_all = [each.name for each in formats_of(framework) if each.is_by_rank_0]
    if framework in saved_as.frameworks:
        assert size_layout(scenario_from(question)).checkpoint_layout.size.total_bytes > 0
    elif saved_as.name == "full" and gathers_all:  # the name of a kind, too
        assert size_layout(scenario_from(question)).checkpoint_layout.size.format in gathers_all
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
    "table_sharding": {"parallelism": {"table_sharding": "row-wise", "data": 2}},
    "files_per_rank": {"checkpoint": {"files_per_rank": 2}},
    "distributed_optimizer": {"training": {"distributed_optimizer": True}},
    "optimizer_sharding": {
        "training": {"distributed_optimizer": True},
        "checkpoint": {"optimizer_sharding": "fully-reshardable"},
    },
    "stored_fraction": {"checkpoint": {"stored_fraction": 0.5}},
}


@each_framework
@pytest.mark.parametrize("field", get_args(FormatField))
def test_a_field_that_a_format_does_not_take_is_refused(
    saved_as: CheckpointFormat, framework: FrameworkName, field: FormatField
) -> None:
    given_fields = OWN_FIELDS[field]
    if field == "expert_tensor" and "tensor" in saved_as.takes:
        given_fields = {"parallelism": {"tensor": 2, "expert_tensor": 1, "data": 2}}
    if field == "virtual_pipeline" and "pipeline" in saved_as.takes:
        ends = {"embedding_counts_as_layer": False, "loss_counts_as_layer": True}
        given_fields = {"parallelism": {"virtual_pipeline": 4, "pipeline": 2} | ends}
    checkpoint = {"format": saved_as.name} | given_fields.get("checkpoint", {})
    question = document(saved_as, framework, given_fields.get("parallelism", {}), checkpoint=checkpoint)
    question["training"] |= given_fields.get("training", {})
    if field in saved_as.takes:
        assert size_layout(scenario_from(question)).checkpoint_layout.size.total_bytes > 0
    else:
        refused(question, rf"\.{field} (must .* with format {saved_as.name}|is a field of format).*: remove it")


def parts_of(question: dict[str, Any]) -> tuple[dict[PartName, PartSize], dict[str, RestoredPart]]:
    """The parts of a checkpoint, and of what a restart reads, without all that an answer has beside them."""
    scenario = scenario_from(question)
    asked = size_layout(scenario)
    return asked.checkpoint_layout.size.parts, evaluate(asked.workload, scenario.run_inputs).report.restore.parts


@each_framework
@given(data=st.data())
@examples(25)
def test_a_checkpoint_is_read_into_another_layout_as_far_as_its_format_reshards(
    saved_as: CheckpointFormat, framework: FrameworkName, data: st.DataObject
) -> None:
    saved, other = data.draw(degrees(saved_as)), data.draw(degrees(saved_as))
    more_replicas = saved | {"data": 2 * saved["data"]}
    into = {"everything": other, "replicas": more_replicas, "nothing": saved}[saved_as.reshards]
    parts, read = parts_of(restored(saved_as, framework, saved, into))
    for name, part in parts.items():
        assert read[name].read_bytes >= part.logical_bytes
    if saved_as.reshards != "everything" and other["tensor"] != saved["tensor"]:
        refused(restored(saved_as, framework, saved, other), "checkpoint.restore_parallelism.tensor must equal")
    if saved_as.reshards == "nothing":
        refused(restored(saved_as, framework, saved, more_replicas), "checkpoint.restore_parallelism.data must equal")


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
    assert re.search(r"\.(pt|distcp|safetensors|ocdbt)\b|\bone file\b", saved_as.files), (
        "the name of its files, or that it is one"
    )
    assert re.search(r"\branks?\b", saved_as.writers), "which ranks write"
    assert re.search(r"\w+, \w+|project", saved_as.source), "a project and where in it, or this project"


def restored(
    saved_as: CheckpointFormat, framework: FrameworkName, saved: dict[str, Any], into: dict[str, Any]
) -> dict[str, Any]:
    return document(saved_as, framework, saved, checkpoint=whole(saved_as) | {"restore_parallelism": into})


def refused(question: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        answer(scenario_from(question))
