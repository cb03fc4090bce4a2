"""The checkpoint formats as a catalog lists them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from sizing.layout.formats.base import CheckpointFormat, FormatField, Gathers, Mode, Reshards
from sizing.layout.formats.registry import FORMATS
from sizing.layout.parallelism import Parallelism
from sizing.state.saved_state import PartName
from sizing.state.training import Framework, Training


class CatalogFormat(BaseModel):
    """A checkpoint format: who writes which files, and who reads them back."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="Name, for checkpoint.format of a scenario.")
    frameworks: tuple[Framework, ...] = Field(
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
    """Every format, in the order of the registry."""
    return [_entry(saved_as) for saved_as in FORMATS.values()]


def _entry(saved_as: CheckpointFormat) -> CatalogFormat:
    return CatalogFormat(
        name=saved_as.name,
        frameworks=saved_as.frameworks,
        modes=saved_as.modes,
        takes=tuple(sorted(saved_as.takes)),
        files=saved_as.files,
        writers=saved_as.writers,
        gathers=saved_as.gathers,
        readers=_readers(saved_as),
        reshards=saved_as.reshards,
        source=saved_as.source,
    )


def _readers(saved_as: CheckpointFormat) -> dict[str, str]:
    """Who reads which part, where every field is at its default."""
    parts: dict[str, PartName] = {"weights": "weights", "optimizer": "moments"}
    sharding = saved_as.sharding(Training(framework=saved_as.frameworks[0]), Parallelism())
    return {name: saved_as.readers(part, Parallelism(), sharding).name for name, part in parts.items()}
