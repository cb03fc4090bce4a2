"""Every checkpoint format by name, where a new one is added, and its entry in the catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field, WithJsonSchema
from pydantic_core import PydanticKnownError

from sizing.field_paths import value_at, with_fields
from sizing.frameworks import FRAMEWORKS
from sizing.layout.formats.base import CheckpointFormat, FormatField, Gathers, Mode, Reshards
from sizing.layout.formats.deepspeed import DEEPSPEED
from sizing.layout.formats.fsdp import ACCELERATE_FSDP, FSDP_SHARDED
from sizing.layout.formats.fsdp_dtensor import FSDP_DTENSOR
from sizing.layout.formats.full import ACCELERATE, FULL, HF_TRAINER, LIGHTNING, TORCH_SAVE
from sizing.layout.formats.megatron import MEGATRON, MEGATRON_DISTRIBUTED_OPTIMIZER
from sizing.layout.formats.orbax import ORBAX
from sizing.layout.formats.torch_dist import TORCH_DIST
from sizing.layout.parallelism import Parallelism
from sizing.spelling import known_spelling
from sizing.state.saved_state import PartName
from sizing.state.training import FrameworkName, Training
from sizing.strict_model import StrictModel


def by_name(*formats: CheckpointFormat) -> dict[str, CheckpointFormat]:
    """Map formats by name.

    Raises ValueError if two have the same name.
    """
    by_name: dict[str, CheckpointFormat] = {}
    for each in formats:
        if each.name in by_name:
            raise ValueError(f"name of a checkpoint format must be unique, got {each.name!r} twice: rename one of them")
        by_name[each.name] = each
    return by_name


FORMATS = by_name(
    MEGATRON,
    MEGATRON_DISTRIBUTED_OPTIMIZER,
    TORCH_DIST,
    FSDP_DTENSOR,
    DEEPSPEED,
    FSDP_SHARDED,
    FULL,
    ORBAX,
    HF_TRAINER,
    ACCELERATE,
    ACCELERATE_FSDP,
    LIGHTNING,
    TORCH_SAVE,
)


def formats_of(name: FrameworkName) -> list[CheckpointFormat]:
    """List the formats in which a framework saves: those that name it, and its default."""
    default = FRAMEWORKS[name].format
    return [each for each in FORMATS.values() if name in each.frameworks or each.name == default]


_NAMES_OF_KINDS: dict[str, Callable[[CheckpointFormat], bool]] = {
    "full": lambda each: each.is_by_rank_0,
    "full-state-dict": lambda each: each.is_by_rank_0,
    "sharded": lambda each: not each.is_by_rank_0,
    "sharded-state-dict": lambda each: not each.is_by_rank_0,
    "dcp": lambda each: each.planning is not None,
    "distcp": lambda each: each.planning is not None,
}
"""Names that people and configs give to kinds of formats. Source: PyTorch, StateDictType, as fsdp_state_dict_type of
accelerate takes it; torch.distributed.checkpoint, and the suffix of its files."""


def with_format_of_framework(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Put the format that a framework has of a kind in the place of the name of that kind.

    >>> with_format_of_framework({"training": {"framework": "ddp"}, "checkpoint": {"format": "FULL_STATE_DICT"}})
    {'training': {'framework': 'ddp'}, 'checkpoint': {'format': 'torch-save'}}
    """
    name, framework = value_at(document, "checkpoint.format"), value_at(document, "training.framework") or "megatron"
    if not isinstance(name, str) or not isinstance(framework, str):
        return document
    kind, spelled = known_spelling(name, _NAMES_OF_KINDS), known_spelling(framework, FRAMEWORKS)
    named = next((each for each in FRAMEWORKS if each == spelled), None)
    if kind is None or named is None:
        return document
    default_first = sorted(formats_of(named), key=lambda each: each.name != FRAMEWORKS[named].format)
    found = next((each.name for each in default_first if _NAMES_OF_KINDS[kind](each)), None)
    return with_fields(document, {"checkpoint.format": found}) if found else document


def format_of(name: str | None, framework: FrameworkName) -> CheckpointFormat:
    """Return the format with this name, or the framework's default if none is given."""
    return FORMATS[name or FRAMEWORKS[framework].format]


def _spell_format(name: str) -> str:
    spelled = known_spelling(name, FORMATS)
    if spelled is None:
        *others, last = map(repr, FORMATS)
        raise PydanticKnownError("literal_error", {"expected": f"{', '.join(others)} or {last}"})
    return spelled


FormatName = Annotated[str, AfterValidator(_spell_format), WithJsonSchema({"enum": list(FORMATS), "type": "string"})]
"""Name of a format, as a field of a scenario or report; a scenario may spell it in any way."""


class CatalogFormat(StrictModel):
    """A checkpoint format: who writes which files, and who reads them back."""

    name: str = Field(description="Name, for checkpoint.format of a scenario.")
    frameworks: tuple[FrameworkName, ...] = Field(
        description="Values of training.framework whose runs can save in this format."
    )
    modes: tuple[Mode, ...] = Field(description="Whether training waits for the write: sync, async or both.")
    takes: tuple[FormatField, ...] = Field(
        description="Fields of a scenario that it knows beside those of every format."
    )
    files: str = Field(description="Names of its files, in words.")
    writers: str = Field(description="Which ranks write, in words.")
    gathers: Gathers = Field(description="State that the writers gather from others before they write.")
    readers: dict[str, str] = Field(description="Who reads the weights and the optimizer back, in words.")
    reshards: Reshards = Field(description="Degrees that may differ when a checkpoint is read back.")
    source: str = Field(description="Source code or document in which this was read.")


def catalog_formats() -> list[CatalogFormat]:
    """List every format as a catalog entry, in the order of the registry. Readers are those with default degrees."""
    parts: dict[str, PartName] = {"weights": "weights", "optimizer": "moments"}
    entries, defaults = [], Parallelism()
    for each in FORMATS.values():
        sharding = each.sharding(Training(framework=each.frameworks[0]), defaults)
        entries.append(
            CatalogFormat(
                name=each.name,
                frameworks=each.frameworks,
                modes=each.modes,
                takes=tuple(sorted(each.takes)),
                files=each.files,
                writers=each.writers,
                gathers=each.gathers,
                readers={name: each.readers(part, defaults, sharding).name for name, part in parts.items()},
                reshards=each.reshards,
                source=each.source,
            )
        )
    return entries
