"""What training keeps off the GPU, what its gradients leave, and how long the run is, in words."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.summary.rows import Row
from sizing.training.compression.compressed import CompressedGradients
from sizing.training.large_batch.run_length import RunLength
from sizing.training.offload.offloaded import Offloaded
from sizing.units import counted_text, decimal_bytes_text, percent_text, seconds_text


def offload_rows(found: Offloaded | None) -> Iterator[Row]:
    """What lies off the GPU, what a save need not copy, and what the link takes."""
    if found is None:
        return
    places = {"host memory": found.host_bytes, "NVMe": found.nvme_bytes}
    texts = [f"{decimal_bytes_text(num_bytes)} in {place}" for place, num_bytes in places.items() if num_bytes]
    where = f"a node keeps {' and '.join(texts)}" if texts else "nothing lies off the GPU"
    yield Row("offload", decimal_bytes_text(found.freed_bytes), f"less on the GPU; {where}")
    if found.uncopied_fraction:
        yield Row("not copied", percent_text(found.uncopied_fraction), "of a checkpoint lies off the GPU at a save")
    if found.state_step_bytes and found.state_step_seconds is not None:
        moved = f"of state over the GPU's link in a step, {seconds_text(found.state_step_seconds)} if nothing overlaps"
        yield Row("link", decimal_bytes_text(found.state_step_bytes), moved)
    if found.hidden_fraction is not None:
        hidden = "of a layer's activations can be copied behind its forward pass"
        yield Row("hidden", percent_text(found.hidden_fraction), hidden)


def compression_rows(found: CompressedGradients | None) -> Iterator[Row]:
    """What a rank sends, and what it keeps and saves."""
    if found is None:
        return
    sent = f"sent in a step, of {decimal_bytes_text(found.gradient_bytes)} of gradients"
    yield Row("gradients", decimal_bytes_text(found.sent_bytes), sent)
    kept = f"kept by a rank; {decimal_bytes_text(found.saved_bytes)} of all ranks in a checkpoint"
    yield Row("errors", decimal_bytes_text(found.kept_bytes), kept)


def run_length_rows(found: RunLength | None) -> Iterator[Row]:
    """How many steps and checkpoints the whole run has."""
    if found is None:
        return
    fewest = "" if found.min_steps is None else f"; no batch size needs fewer than {found.min_steps:,}"
    yield Row("steps", f"{found.num_steps:,}", f"of {found.batch_tokens:,} tokens{fewest}")
    if found.wall_seconds is not None and found.interval_steps is not None:
        saves = counted_text(found.num_checkpoints or 0, "checkpoint")
        every = f"{saves}, one every {found.interval_steps:,.0f} steps"
        yield Row("whole run", seconds_text(found.wall_seconds), every)
