"""`ckpt-size tensors`: the list of a model's tensors, from a checkpoint, a config.json or a scenario."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sizing.checkpoint_files.weights import weights_of
from sizing.cli.flags import naming_flags
from sizing.cli.meta_device import tensors_on_meta_device
from sizing.errors import InvalidInput
from sizing.model import Model
from sizing.model.listed import FlatTensor, Heads, listed_model
from sizing.model.listing import model_of_tensors, modules_left_out
from sizing.model.model import resolve
from sizing.scenario import scenario_from
from sizing.terminal.files import read_document
from sizing.terminal.output import console
from sizing.units import counted_text

_DOCUMENTS = (".json", ".yaml", ".yml")


def print_tensors(path: Path | None, *, hf_config: Path | None, output: Path | None, as_json: bool) -> None:
    """List a model's tensors with the roles that the rules give them, equal ones together."""
    model, notes = _read_model(path, hf_config)
    document = json.dumps({"model": model.model_dump(mode="json", exclude_unset=True)}, indent=1)
    if output is not None:
        _write(output, document)
    if as_json:
        print(document)
    else:
        console().print(_table(model, notes))


def _read_model(path: Path | None, hf_config: Path | None) -> tuple[Model, list[str]]:
    """Read the model from one of the sources, with notes on what its list leaves out."""
    if (path is None) == (hf_config is None):
        sources = "both" if path else "none"
        raise InvalidInput.of(
            "the list", "must be read from a PATH or from --hf-config", value=sources, remedy="give one"
        )
    if hf_config is not None:
        config = read_document(hf_config)
        model = model_of_tensors(tensors_on_meta_device(config, hf_config), config)
        return model, list(_notes_on_modules(config, model))
    assert path is not None  # noqa: S101 - one of the two is given
    if path.suffix not in _DOCUMENTS or path.name.endswith(".safetensors.index.json"):
        return _read_checkpoint(path)
    model = scenario_from(read_document(path)).model
    if model.tensors is None:
        rule, remedy = "must be a scenario with model.tensors", "give a checkpoint, or --hf-config"
        raise InvalidInput.of(str(path), rule, value=None, remedy=remedy)
    return model, []


def _read_checkpoint(path: Path) -> tuple[Model, list[str]]:
    """Read the model from weights, with the heads that a config.json beside them states."""
    with naming_flags():
        weights = weights_of(path)
    beside = (path if path.is_dir() else path.parent) / "config.json"
    config = read_document(beside) if beside.is_file() else {}
    tensors = (
        FlatTensor(tensor.name, tensor.shape, tensor.dtype, "tied" if tensor.is_alias else None)
        for tensor in weights.tensors
    )
    model = model_of_tensors(tensors, config)
    notes = list(_notes_on_modules(config, model))
    if weights.num_others:
        notes.append(f"{counted_text(weights.num_others, 'tensor')} of the checkpoint that are no weights are left out")
    return model, notes


def _notes_on_modules(config: Mapping[str, Any], model: Model) -> Iterator[str]:
    if modules := modules_left_out(config, model):
        yield f"{counted_text(modules, 'multi-token-prediction module')} of the config: no weights of them in the list"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        rule = f"cannot be written ({error.strerror})"
        raise InvalidInput.of("--output", rule, value=str(path), remedy="check folder and permissions") from None


def _table(model: Model, notes: list[str]) -> RenderableType:
    heads = Heads(model.num_attention_heads, model.num_kv_heads)
    listed, resolved = listed_model(model.tensors or (), heads), resolve(model)
    table = Table(title="Tensors", title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("name", "shape", "dtype"):
        table.add_column(column, overflow="fold")
    for column in ("tensors", "parameters"):
        table.add_column(column, justify="right")
    table.add_column("roles")
    for row in listed.rows:
        entry = row.named.entry
        roles = ", ".join(row.roles) + ("" if row.is_known else " (no rule)")
        shape = " x ".join(map(str, entry.shape)) or "1"
        table.add_row(
            Text(entry.name), shape, Text(entry.dtype), f"{entry.num_tensors:,}", f"{entry.num_parameters:,}", roles
        )
    remarks = [*(f"{assumption.value}: {assumption.reason}" for assumption in listed.notes), *notes]
    return Group(
        table,
        *(Text(f"note: {remark}") for remark in remarks),
        Text(),
        Text(f"{resolved.num_parameters:,} parameters in {counted_text(resolved.num_layers, 'layer')}"),
    )
