"""What the fullest GPU holds."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.summary.rows import Row
from sizing.training import GpuMemory
from sizing.units import counted_text, decimal_bytes_text, percent_text, seconds_text

_UNCOUNTED = "; activations not counted: they need --micro-batch and an architecture"


def memory_rows(memory: GpuMemory) -> Iterator[Row]:
    """State, activations, and whether they fit."""
    yield Row("state", decimal_bytes_text(memory.gpu_state_bytes), "weights, gradients and optimizer")
    if memory.activation_bytes is not None and memory.total_bytes is not None:
        in_flight = counted_text(memory.in_flight_microbatches or 0.0, "microbatch")
        kept = f"of {in_flight} in flight; recomputation {memory.recomputation}"
        yield Row("activations", decimal_bytes_text(memory.activation_bytes), kept)
        moment = "at the fullest moment beside them: loss or a layer's backward pass, gathered weights, buffers"
        yield Row("working memory", decimal_bytes_text(memory.working_bytes or 0), moment)
        total = f"on stage {memory.fullest_stage}"
        if memory.reserved_bytes is not None:
            total += f"; the allocator reserves up to {decimal_bytes_text(memory.reserved_bytes[1])} for it"
        yield Row("total", decimal_bytes_text(memory.total_bytes), total)
    if memory.gpu_memory_bytes is not None:
        fits = "fits" if memory.runs and memory.cannot_run is None else "DOES NOT FIT"
        uncounted = "" if memory.total_bytes is not None else _UNCOUNTED
        yield Row("GPU memory", decimal_bytes_text(memory.gpu_memory_bytes), f"of the fullest GPU: {fits}{uncounted}")
    if memory.step is not None:
        step = memory.step
        per_gpu = f"{step.tokens_per_second_per_gpu:,.0f} tokens/s per GPU, MFU {percent_text(step.mfu_fraction)}"
        yield Row("step", seconds_text(step.seconds), per_gpu)
    if memory.bubble_fraction is not None:
        idle = f"of a step the pipeline is idle, with {counted_text(memory.num_microbatches or 0, 'microbatch')}"
        yield Row("bubble", percent_text(memory.bubble_fraction), idle)
