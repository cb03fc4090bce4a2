"""Every checkpoint format by name: the one list that a new format is added to."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema
from pydantic_core import PydanticKnownError

from sizing.layout.formats.base import CheckpointFormat
from sizing.layout.formats.deepspeed import DEEPSPEED
from sizing.layout.formats.fsdp import FSDP_SHARDED
from sizing.layout.formats.fsdp_dtensor import FSDP_DTENSOR
from sizing.layout.formats.full import FULL
from sizing.layout.formats.megatron import MEGATRON, MEGATRON_DISTRIBUTED_OPTIMIZER
from sizing.layout.formats.orbax import ORBAX
from sizing.layout.formats.torch_dist import TORCH_DIST
from sizing.layout.framework_defaults import FORMAT_OF_FRAMEWORK
from sizing.spelling import known_spelling
from sizing.state.training import Framework


def by_name(*formats: CheckpointFormat) -> dict[str, CheckpointFormat]:
    """The formats under their names.

    Raises ValueError where two have the same name.
    """
    named: dict[str, CheckpointFormat] = {}
    for each in formats:
        if each.name in named:
            raise ValueError(f"name of a checkpoint format must be unique, got {each.name!r} twice: rename one of them")
        named[each.name] = each
    return named


FORMATS = by_name(
    MEGATRON,
    MEGATRON_DISTRIBUTED_OPTIMIZER,
    TORCH_DIST,
    FSDP_DTENSOR,
    DEEPSPEED,
    FSDP_SHARDED,
    FULL,
    ORBAX,
)


def formats_of(framework: Framework) -> list[CheckpointFormat]:
    """The formats in which a framework saves."""
    return [each for each in FORMATS.values() if framework in each.frameworks]


def format_of(name: str | None, framework: Framework) -> CheckpointFormat:
    """The format of that name; the framework's own where none is given."""
    return FORMATS[name or FORMAT_OF_FRAMEWORK[framework]]


def _of_a_format(name: str) -> str:
    spelled = known_spelling(name, FORMATS)
    if spelled is None:
        *others, last = map(repr, FORMATS)
        raise PydanticKnownError("literal_error", {"expected": f"{', '.join(others)} or {last}"})
    return spelled


FormatName = Annotated[str, AfterValidator(_of_a_format), WithJsonSchema({"enum": list(FORMATS), "type": "string"})]
"""A name in FORMATS, as a field of a scenario or report; in a scenario however it is spelled."""
