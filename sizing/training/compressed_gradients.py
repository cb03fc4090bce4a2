"""The `gradient_compression` block of the report: what ranks send, keep and save of compressed gradients."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from sizing.layout import CheckpointLayout, Parallelism
from sizing.layout.gradient_errors import GradientErrors
from sizing.state import Training
from sizing.state.saved_state import RANK_PART
from sizing.strict_model import StrictModel
from sizing.units import decimal_bytes_text, percent_text


class CompressedGradients(StrictModel):
    """The `gradient_compression` block of the report, of the rank that sends most."""

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
    training: Training, parallelism: Parallelism, *, checkpoint_layout: CheckpointLayout
) -> CompressedGradients | None:
    """Return the `gradient_compression` block of the report; None where gradients are exchanged uncompressed."""
    errors = GradientErrors.of(training, parallelism)
    if errors is None:
        return None
    fullest = max(checkpoint_layout.holders, key=errors.sent_bytes)
    saved = checkpoint_layout.size.parts.get(RANK_PART)
    whole = (fullest.dense.trained_parameters + fullest.expert.trained_parameters) * errors.value_bytes
    sent = errors.sent_bytes(fullest)
    return CompressedGradients(
        gradient_bytes=whole,
        sent_bytes=round(sent),
        sent_fraction=sent / whole if whole else 0.0,
        kept_bytes=max(map(errors.kept_bytes, checkpoint_layout.holders)),
        saved_bytes=saved.total_bytes if saved else 0,
    )


def compression_warnings(found: CompressedGradients | None, *, total_bytes: int) -> Iterator[str]:
    """Warn that error buffers tie the checkpoint to its data-parallel degree, or that compression saves nothing."""
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
