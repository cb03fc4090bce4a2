"""Fields of a scenario that an existing checkpoint tells: what `--checkpoint` adds."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sizing.checkpoint_files import contents_of
from sizing.cli.flags import FLAGS, as_typed, flag_words, naming_flags, with_flag_fields
from sizing.errors import InvalidInput
from sizing.field_paths import value_at
from sizing.present.inspections import (
    NUM_PARAMETERS,
    OPTIMIZER,
    explain_unknown_parameters,
    find_config,
    infer_degrees,
    infer_fields,
    infer_framework_fields,
    resume_notes,
)
from sizing.scenario import NUM_GPUS
from sizing.terminal.files import read_document

_FRAMEWORK = "training.framework"


def with_checkpoint(
    document: dict[str, Any], path: Path, flags: Mapping[str, Any], *, is_config_given: bool
) -> dict[str, Any]:
    """Set the fields that `inspect` infers from a checkpoint, and print its notes.

    A field of the file or of a flag goes before the same one inferred from names in the checkpoint. So does a
    framework, before all that was inferred of frameworks.
    Raises InvalidInput where neither the checkpoint nor anything else tells the model.
    """
    with naming_flags():
        contents = contents_of(path)
    is_named = is_config_given or flags.get("model") is not None
    is_model_given = is_named or document.get("model") or flags.get("parameters") is not None
    config = None if is_model_given else find_config(contents)
    fields = infer_fields(contents, has_config=is_named or config is not None)
    if NUM_PARAMETERS not in fields and not is_model_given and config is None:
        remedy = "add --model NAME, --parameters N or --hf-config FILE"
        raise InvalidInput.of(f"--checkpoint {path}", explain_unknown_parameters(contents), value=None, remedy=remedy)
    for note in resume_notes(contents):
        print(f"note: {flag_words(None, {})(note)}", file=sys.stderr)
    if config is not None:
        document["model"] = {"huggingface_config": read_document((path if path.is_dir() else path.parent) / config)}
    degrees = infer_degrees(contents).keys()
    inferred = infer_framework_fields(contents).keys() | degrees | {OPTIMIZER}
    typed = {flag.field for flag in FLAGS if flags.get(flag.parameter) is not None}
    stated = {
        field for field in (_FRAMEWORK, NUM_GPUS, *inferred) if field in typed or value_at(document, field) is not None
    }
    gives_way = (inferred - {OPTIMIZER} if _FRAMEWORK in stated else set()) | (inferred & stated)
    if stated & {NUM_GPUS, *degrees}:
        gives_way |= degrees
    flag_of = {flag.field: flag for flag in FLAGS if not flag.sets}
    values = {field: as_typed(flag_of[field], value) for field, value in fields.items() if field not in gives_way}
    return with_flag_fields(document, values)
