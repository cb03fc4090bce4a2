"""What ranks hold and save, in rows: GPU memory, offload, reduced saves, and what is written beside them."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.guesses.guess import WIDE_FRACTION
from sizing.present.guesses import MARK, roughly
from sizing.present.rows import UNKNOWN, Row
from sizing.provenance import LAYOUT
from sizing.report import SizingReport
from sizing.run.export import Exported
from sizing.run.host_memory import HostMemory
from sizing.run.publication import Published
from sizing.run.reduction_effect import ReductionEffect, reduction_text
from sizing.scenario import NUM_GPUS
from sizing.training import GpuMemory
from sizing.training.compressed_gradients import CompressedGradients
from sizing.training.offload import Offloaded
from sizing.units import counted_text, decimal_bytes_text, percent_text, rate_text, seconds_text


def memory_rows(report: SizingReport) -> Iterator[Row]:
    """Rows of state and activations on the fullest GPU, and of whether they fit."""
    memory = report.training
    yield Row("state", decimal_bytes_text(memory.gpu_state_bytes), "weights, gradients and optimizer")
    if memory.gathered_bytes:
        yield Row("gathered", decimal_bytes_text(memory.gathered_bytes), "weights and gradients whole at one time")
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
        fits = "may not fit" if _may_exceed(memory) else "fits"
        if not memory.runs:  # nobody named GPUs
            fits = "takes several GPUs, give cluster.num_gpus"
        if memory.cannot_run is not None:
            fits = "DOES NOT FIT"
        if memory.total_bytes is None:
            batch = _judged_batch(report)
            without = " with the activations of" if memory.cannot_run else " without activations, and with those of"
            lacks = "; activations not counted: they need training.micro_batch_size and an architecture"
            fits += f"{without} {batch}" if batch else lacks
        yield Row("GPU memory", decimal_bytes_text(memory.gpu_memory_bytes), f"of the fullest GPU: {fits}")
    if memory.step is not None:
        step = memory.step
        per_gpu = f"{step.tokens_per_second_per_gpu:,.0f} tokens/s per GPU, MFU {percent_text(step.mfu_fraction)}"
        ends = f"; {seconds_text(step.seconds_low)} to {seconds_text(step.seconds_high)} by measured runs"
        yield Row("step", seconds_text(step.seconds), per_gpu + ends)
    if memory.bubble_fraction is not None:
        idle = f"of a step the pipeline is idle, with {counted_text(memory.num_microbatches or 0, 'microbatch')}"
        yield Row("bubble", percent_text(memory.bubble_fraction), idle)


def _judged_batch(report: SizingReport) -> str:
    """Return the batch that was assumed to choose the layout, as a text; empty where none was."""
    assumed = {assumption.field: assumption for assumption in report.assumptions}
    batch, tokens = (assumed.get(f"training.{name}") for name in ("micro_batch_size", "sequence_length"))
    return f"micro-batch {batch.value_text} x {tokens.value_text} tokens" if batch and tokens else ""


def _may_exceed(memory: GpuMemory) -> bool:
    """Whether what is gathered beside the state may be too much for a GPU that the state fits."""
    return memory.held_bytes > (memory.gpu_memory_bytes or 0)


def fits_text(memory: GpuMemory, *, is_one: bool) -> str:
    """Say whether the bytes that the fullest GPU needs fit what it has; `is_one` where they are its only subject."""
    capacity, verb = decimal_bytes_text(memory.gpu_memory_bytes or 0), "does" if is_one else "do"
    fits = ("fits" if is_one else "fit") if memory.runs else f"{verb} not fit"
    if memory.runs and _may_exceed(memory):
        fits = "may not fit"
    return f"{fits} {capacity} of the fullest GPU"


def fit_rows(report: SizingReport) -> Iterator[Row]:
    """Whether the fullest GPU holds a layout that was chosen, or any while no storage is given.

    The row names the batch that the layout was chosen by, and what to give for the time of a step. The verdict says it
    where the layout does not fit.
    """
    memory, assumed = report.training, {assumption.field: assumption for assumption in report.assumptions}
    is_wanted = (LAYOUT in assumed or report.write is None) and NUM_GPUS not in assumed
    if memory.gpu_memory_bytes is None or memory.cannot_run is not None or not is_wanted:
        return
    given = ["training.global_batch_size"] if memory.num_microbatches is None else []
    meaning = fits_text(memory, is_one=True)
    if memory.total_bytes is None:
        batch = _judged_batch(report)
        meaning += " without activations"
        if batch:
            meaning += f", and with those of {batch}"
        is_countable = bool(batch) or LAYOUT not in assumed
        given = ["training.sequence_length", "training.micro_batch_size", *given] if is_countable else []
    step = f"; for step time and MFU give {', '.join(given)}" if given else ""
    yield Row("GPU memory", decimal_bytes_text(memory.held_bytes), meaning + step)


def offload_rows(found: Offloaded | None) -> Iterator[Row]:
    """Rows of what lies off the GPU, what a save need not copy, and what the link takes."""
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


def host_memory_rows(memory: HostMemory) -> Iterator[Row]:
    """A row of the host memory that a save takes, where it gathers, stages or keeps anything there."""
    if not memory.saving_bytes:
        return
    parts = {
        "gathered": memory.gathered_bytes,
        "staged": memory.staged_bytes,
        "kept in tiers": memory.tier_bytes,
        "bases of deltas": memory.delta_base_bytes,
        "offloaded": memory.offloaded_bytes,
    }
    counted = {name: decimal_bytes_text(num_bytes) for name, num_bytes in parts.items() if num_bytes}
    what = " + ".join(f"{name} {text}" for name, text in counted.items()) if len(counted) > 1 else next(iter(counted))
    judgement = ""
    if memory.usable_bytes is not None:
        may_fit = "fits" if memory.needed_high_bytes <= memory.usable_bytes else "MAY NOT FIT"
        judgement = (
            f"; {may_fit if memory.fits else 'DOES NOT FIT'} {decimal_bytes_text(memory.usable_bytes)} of a node"
        )
    high = decimal_bytes_text(memory.needed_high_bytes)
    yield Row("Host memory", decimal_bytes_text(memory.needed_bytes), f"{what}; up to {high} with buffers{judgement}")


def compression_rows(found: CompressedGradients | None) -> Iterator[Row]:
    """Rows of the gradients that a rank sends, and of what compression keeps and saves."""
    if found is None:
        return
    sent = f"sent in a step, of {decimal_bytes_text(found.gradient_bytes)} of gradients"
    yield Row("gradients", decimal_bytes_text(found.sent_bytes), sent)
    kept = f"kept by a rank; {decimal_bytes_text(found.saved_bytes)} of all ranks in a checkpoint"
    yield Row("errors", decimal_bytes_text(found.kept_bytes), kept)


def beside_rows(report: SizingReport) -> Iterator[Row]:
    """Rows of the reduction, the export and the publication that the scenario has."""
    if report.reduction is not None:
        yield from _reduction_rows(report.reduction)
    yield from written_beside(report)


def written_beside(report: SizingReport) -> Iterator[Row]:
    """A row for the export and for the publication, where the scenario has them."""
    if report.export is not None:
        yield roughly(report, _export_row(report.export), "export.seconds")
    if report.publication is not None:
        yield _publication_row(report.publication)


def _reduction_rows(savings: ReductionEffect) -> Iterator[Row]:
    yield Row("save with reduction", decimal_bytes_text(savings.mean_bytes), reduction_text(savings))
    if savings.restore_seconds is not None and savings.whole_restore_seconds is not None:
        longest = savings.max_restore_seconds or 0.0
        at_most = f", at most {seconds_text(longest)}" if longest > savings.restore_seconds else ""
        meaning = f"on average{at_most}; {seconds_text(savings.whole_restore_seconds)} from a save of everything"
        yield Row("restore with reduction", seconds_text(savings.restore_seconds), meaning)
    if savings.pays is not None:
        edge = savings.break_even_run_write_bytes_per_second
        pays = "pays" if savings.pays else "does not pay"
        text = "at every rate or at none" if edge is None else f"below {rate_text(edge)}"
        meaning = f"write bandwidth below which the run loses less time; here the reduction {pays}"
        if edge is None:
            meaning = f"the write bandwidth does not decide; here the reduction {pays}"
        yield Row("reduction pays", text, meaning + _goodputs(savings))


def _goodputs(savings: ReductionEffect) -> str:
    if savings.goodput_fraction is None or savings.whole_goodput_fraction is None:
        return ""
    less, whole = percent_text(savings.goodput_fraction), percent_text(savings.whole_goodput_fraction)
    return f": goodput {less}, without it {whole}"


def _export_row(export: Exported) -> Row:
    files = f"{decimal_bytes_text(export.num_bytes)} in {counted_text(export.num_files, 'file')}"
    if export.seconds is None or export.stall_seconds is None:
        return Row("export", UNKNOWN, f"{files}; give write and read rates")
    stall = f"stalls training for {seconds_text(export.stall_seconds)}" if export.stall_seconds else "in the background"
    is_open = not export.is_writer_rate_known and export.num_writers > 1
    unknown = " (rate of one not known)" if is_open else ""
    writers = f"{counted_text(export.num_writers, 'writer')}{unknown}"
    return Row("export", seconds_text(export.seconds), f"{files} by {writers}; {stall}")


def _publication_row(published: Published) -> Row:
    sent = f"{published.content}: {decimal_bytes_text(published.replica_bytes)} to each inference engine"
    if published.seconds is None or published.step_fraction is None:
        return Row("publication", UNKNOWN, f"{sent}; give replica_bytes_per_second")
    meaning = f"{sent}; {percent_text(published.step_fraction)} of the interval between publications"
    low, high = published.seconds_low, published.seconds_high
    if low is None or high is None or high - low <= WIDE_FRACTION * published.seconds:
        return Row("publication", seconds_text(published.seconds), meaning)
    meaning += f"; {seconds_text(low)} to {seconds_text(high)} with what is assumed: {_stages_text(published)}"
    return Row("publication", MARK + seconds_text(published.seconds), meaning)


def _stages_text(published: Published) -> str:
    """The stages of a publication that take time."""
    stages = {
        "gather": published.gather_seconds,
        "copies": published.copy_seconds,
        "write": published.write_seconds,
        "receive": published.receive_seconds,
        "load": published.load_seconds,
    }
    return ", ".join(f"{name} {seconds_text(seconds)}" for name, seconds in stages.items() if seconds)
