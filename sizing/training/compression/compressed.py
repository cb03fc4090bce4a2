"""The `gradient_compression` block of the report: what ranks send, keep and save of compressed gradients."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, Field

from sizing.layout import LaidOut, Parallelism
from sizing.layout.cells import Cell
from sizing.layout.gradient_errors import GradientErrors
from sizing.state import Training
from sizing.state.saved_state import RANK_PART
from sizing.units import decimal_bytes_text, percent_text


class CompressedGradients(BaseModel):
    """The `gradient_compression` block of the report, of the rank that sends most."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gradient_bytes: int = Field(
        description="Bytes of gradients that the rank gives to its replicas in a step, as they are."
    )
    sent_bytes: int = Field(description="Bytes that it sends in their place, with places, norms and scales.")
    sent_fraction: float = Field(description="Fraction of the bytes that is left to send: sent_bytes / gradient_bytes.")
    kept_bytes: int = Field(
        description="Max bytes that a rank keeps on its GPU from step to step: errors, and matrices to begin with."
    )
    saved_bytes: int = Field(
        description="Bytes of all ranks' errors in one checkpoint, which grow with the data-parallel degree."
    )


def compressed_gradients(
    training: Training, parallelism: Parallelism, *, laid_out: LaidOut
) -> CompressedGradients | None:
    """The block of a scenario; None where gradients are exchanged as they are."""
    errors = GradientErrors.of(training, parallelism)
    if errors is None:
        return None
    fullest = max(laid_out.cells, key=errors.sent_bytes)
    saved = laid_out.size.parts.get(RANK_PART)
    sent, whole = errors.sent_bytes(fullest), _gradient_bytes(fullest, errors)
    return CompressedGradients(
        gradient_bytes=whole,
        sent_bytes=round(sent),
        sent_fraction=sent / whole if whole else 0.0,
        kept_bytes=max(map(errors.kept_bytes, laid_out.cells)),
        saved_bytes=saved.total_bytes if saved else 0,
    )


def _gradient_bytes(cell: Cell, errors: GradientErrors) -> int:
    return (cell.dense.trained_parameters + cell.expert.trained_parameters) * errors.value_bytes


def compression_warnings(found: CompressedGradients | None, *, total_bytes: int) -> Iterator[str]:
    """That the checkpoint grows with the replicas, and fits no other number of them."""
    if found is not None and found.saved_bytes:
        share = percent_text(found.saved_bytes / total_bytes)
        yield (
            f"{share} of the checkpoint, {decimal_bytes_text(found.saved_bytes)}, are errors of compressed gradients: "
            "each rank has its own. They grow with the data-parallel degree and can be read with the same degrees alone"
        )
    if found is not None and found.sent_fraction > 1:
        yield (
            f"training.gradient_compression sends {percent_text(found.sent_fraction)} of what it compresses. Lower its "
            "density, bits or rank, or remove it"
        )
