"""An existing checkpoint for readers: its tensors and files, notes, and the scenario fields that size a run like it."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.checkpoint_files.contents import FORMAT, FRAMEWORK, CheckpointContents
from sizing.checkpoint_files.dtypes import NOT_STATED
from sizing.frameworks import FRAMEWORKS
from sizing.layout.formats import FORMATS
from sizing.present.document import Document, titled_document
from sizing.present.rows import Grid, Row, Section, Summary
from sizing.state.optimizers import OPTIMIZERS, needs_matrices
from sizing.state.training import Training
from sizing.units import bytes_text, decimal_bytes_text, percent_text


def inspection_summary(contents: CheckpointContents, *, name: str) -> Summary:
    """Summarize a checkpoint under that name: its tensors, notes, and the fields of a scenario that it tells."""
    fields = ", ".join(f"{field} {value}" for field, value in infer_fields(contents).items())
    return Summary(
        headline=name,
        grids=(tensors_grid(contents),) if contents.tensors else (),
        remarks=(f"To size a run like it: {fields}",) if fields else (),
        warnings=inspection_notes(contents),
    )


def tensors_grid(contents: CheckpointContents) -> Grid:
    """Count the tensors of each part of the state and dtype, with their parameters and bytes."""
    layout = f"{contents.layout}, " if contents.layout else ""
    rows = tuple(
        (
            total.part,
            total.dtype,
            f"{total.num_tensors:,}",
            f"{total.num_parameters:,}",
            "-" if total.dtype == NOT_STATED else bytes_text(total.tensor_bytes),
        )
        for total in contents.tensors
    )
    title = "Tensors of the files that are there" if contents.lacks_weights else "Tensors"
    return Grid(f"{title} ({layout}{contents.format})", ("part", "dtype", "tensors", "parameters", "bytes"), rows)


def files_section(contents: CheckpointContents) -> Section:
    """Parameters, tensors and files of a checkpoint in figures."""
    return Section("Checkpoint", tuple(_figure_rows(contents)))


def inspection_notes(contents: CheckpointContents) -> tuple[str, ...]:
    """List what could not be read, what the checkpoint lacks, and what its reader has to add."""
    unnamed = "The number of parameters is unknown. Replace NAME by the model's name in `ckpt-size models`"
    return (*resume_notes(contents), *([unnamed] if contents.num_parameters is None else []))


def _figure_rows(contents: CheckpointContents) -> Iterator[Row]:
    parameters, disk_bytes, largest = contents.num_parameters, contents.disk_bytes, contents.largest_file
    tied = f"{contents.num_aliases:,} more names share the same data" if contents.num_aliases else ""
    yield Row("parameters", "unknown" if parameters is None else f"{parameters:,}", tied)
    tensors = Row("tensors", bytes_text(contents.tensor_bytes), _per_parameter(contents.tensor_bytes, parameters))
    if contents.absent_files:
        yield tensors
        yield Row("files", f"{len(contents.absent_files):,} absent", contents.absent_files[0])
        return
    yield Row("on disk", bytes_text(disk_bytes), _per_parameter(disk_bytes, parameters))
    if contents.overhead_bytes is not None:
        yield tensors
        overhead = contents.overhead_bytes
        share = f"{percent_text(overhead / disk_bytes)} of the files" if disk_bytes else ""
        yield Row("overhead", bytes_text(overhead) if overhead >= 0 else f"-{decimal_bytes_text(-overhead)}", share)
    for kind, num_bytes in contents.small_state_bytes.items():
        yield Row(kind, bytes_text(num_bytes), "")
    yield Row("files", f"{len(contents.files):,}", f"largest {largest.name}, {bytes_text(largest.num_bytes)}")


def _per_parameter(size: int, parameters: int | None) -> str:
    return f"{size / parameters:.3f} B per parameter" if parameters else ""


def inspection_document(contents: CheckpointContents, *, name: str) -> Document:
    """Put the contents of an existing checkpoint into a document, as `ckpt-size inspect` prints them."""
    summary = inspection_summary(contents, name=name)
    return titled_document("An existing checkpoint", summary, sections=(files_section(contents),))


NUM_PARAMETERS = "model.num_parameters"
OPTIMIZER = "training.optimizer"
OBSERVED_BYTES = "checkpoint.observed_bytes"


def infer_fields(contents: CheckpointContents, *, has_config: bool = False) -> dict[str, str]:
    """Infer fields of a scenario from a checkpoint: their values, as one would type them, by dotted path.

    Its bytes are those of a save only where a run can go on from it. The optimizer is left out where it is the default,
    and where its state follows from shapes that nobody gives. `has_config`: a config.json gives the model in place of
    its number of parameters, and so the shapes.
    """
    names_parameters = contents.num_parameters is not None and not contents.is_adapter and not has_config
    fields = {NUM_PARAMETERS: str(contents.num_parameters)} if names_parameters else {}
    fields |= infer_framework_fields(contents)
    lacks_shapes = names_parameters and _keeps_statistics_of_matrices(contents)
    is_default = contents.optimizer in (None, Training.model_fields["optimizer"].default)
    if contents.is_whole and not is_default and not lacks_shapes:
        fields[OPTIMIZER] = str(contents.optimizer)
    if contents.is_whole and not _is_of_other_weights(contents):
        fields |= {field: str(degree) for field, degree in infer_degrees(contents).items()}
        fields[OBSERVED_BYTES] = str(contents.observed_bytes)
    return fields


def find_config(contents: CheckpointContents) -> str | None:
    """Find the config.json beside the weights, by its path in the folder, where the number of parameters is not enough.

    That is where the optimizer keeps statistics of matrices, or other ones of embeddings. None where there is no
    config, or none is needed.
    """
    if not (_keeps_statistics_of_matrices(contents) or _keeps_embeddings(contents)) or contents.is_adapter:
        return None
    return next((file.name for file in contents.files if file.name.rpartition("/")[2] == "config.json"), None)


def _keeps_statistics_of_matrices(contents: CheckpointContents) -> bool:
    known = {optimizer: optimizer for optimizer in OPTIMIZERS}
    return contents.optimizer in known and needs_matrices(known[contents.optimizer])


def _keeps_embeddings(contents: CheckpointContents) -> bool:
    known = {optimizer: moments for optimizer, moments in OPTIMIZERS.items() if optimizer == contents.optimizer}
    return any(moment.keeps_embeddings for moments in known.values() for moment in moments)


def _is_of_other_weights(contents: CheckpointContents) -> bool:
    """Whether the optimizer keeps statistics of more parameters than the weights have, each once in whole files.

    Only optimizers that keep some values of each parameter tell it.
    """
    known = {optimizer: moments for optimizer, moments in OPTIMIZERS.items() if optimizer == contents.optimizer}
    moments = next(iter(known.values()), ())
    if not moments or contents.num_parameters is None or not _has_whole_files(contents):
        return False
    if any(moment.rule != "value" or moment.tensors != "all" for moment in moments):
        return False
    kept = sum(total.num_parameters for total in contents.tensors if total.part == "moments")
    return kept > contents.num_parameters * sum(moment.copies for moment in moments)


def _has_whole_files(contents: CheckpointContents) -> bool:
    """Whether the files hold whole tensors, each once, as rank 0 writes them."""
    name = contents.fields.get(FRAMEWORK)
    chosen = contents.fields.get(FORMAT) or next((each.format for each in FRAMEWORKS.values() if each.name == name), "")
    return chosen in FORMATS and FORMATS[chosen].writers == "rank 0"


def infer_degrees(contents: CheckpointContents) -> dict[str, int]:
    """Infer the parallel degrees of the ranks that wrote the checkpoint, by the scenario fields that hold them."""
    return {f"parallelism.{degree}": count for degree, count in contents.degrees.items()}


def infer_framework_fields(contents: CheckpointContents) -> dict[str, str]:
    """Infer the scenario fields that names of files and tensors tell: framework, format, precision."""
    return contents.fields | _infer_precision(contents)


def resume_notes(contents: CheckpointContents) -> Iterator[str]:
    """Say what could not be read of a checkpoint, and why no run can go on from it."""
    yield from contents.notes
    if contents.is_adapter:
        yield "The weights are those of an adapter alone: name the model that it is for, and give training.adapters"
    if _keeps_statistics_of_matrices(contents) and find_config(contents) is None:
        yield (
            f"The optimizer is {contents.optimizer}, whose state follows from shapes of tensors. To size without "
            f"{OBSERVED_BYTES}, give {OPTIMIZER} {contents.optimizer}, and model.preset or model.huggingface_config "
            f"for {NUM_PARAMETERS}"
        )
    if contents.is_whole and contents.optimizer is None:
        yield (
            f"The optimizer cannot be told from its state; without {OBSERVED_BYTES}, that of "
            f"{OPTIMIZER} {Training.model_fields['optimizer'].default} is counted"
        )
    if _is_of_other_weights(contents):
        yield (
            f"The optimizer keeps state of more than the {contents.num_parameters:,} parameters of the weights: they "
            "are not of one save, so their bytes are left out. Remove the one that is stray"
        )
    if contents.lacks_weights:
        yield (
            "The tensors counted are those of the files that are there, not of the model: download or copy the missing "
            "files, and give the folder that has all"
        )
    if contents.missing_files:
        yield "No run can go on from a checkpoint that lacks files, so its bytes are left out"
    elif not contents.is_whole:
        missing = "weights" if _has_moments(contents) else "optimizer state"
        yield f"The checkpoint has no {missing}. No run can go on from it, so its bytes are left out"


def explain_unknown_parameters(contents: CheckpointContents) -> str:
    """Say why the number of parameters is not known, as the end of a sentence about the checkpoint."""
    if contents.is_adapter:
        return "is an adapter, which does not tell the model's number of parameters"
    if contents.lacks_weights:
        return f"lacks files of weights ({contents.missing_files[0]}), and so does not tell the number of parameters"
    if _has_moments(contents) and not contents.is_whole:
        return "has optimizer state alone, which does not tell the model's number of parameters"
    return "does not tell the model's number of parameters"


def _has_moments(contents: CheckpointContents) -> bool:
    return any(total.part == "moments" for total in contents.tensors)


def _infer_precision(contents: CheckpointContents) -> dict[str, str]:
    """Infer the precision of a run that keeps one dtype, where a run of mixed precision would save several.

    That is bf16 alone in the frameworks that have such runs; fp32 where a run of mixed precision would save weights of
    16 bits; and fp32 without a master copy where no trainer is told: what a script saves of fp32 weights is most often
    a run in fp32.
    """
    dtypes = {total.dtype for total in contents.tensors if total.part in ("weights", "master", "moments")}
    if not contents.is_whole or len(dtypes) > 1:
        return {}
    framework = next((each for each in FRAMEWORKS.values() if each.name == contents.fields.get(FRAMEWORK)), None)
    keeps = framework.keeps if framework else {}
    has_master = any(total.part == "master" for total in contents.tensors)
    has_weights = any(total.part == "weights" and total.num_parameters for total in contents.tensors)
    mixed = keeps.get("bf16-mixed")
    would_be_shorter = has_weights and mixed is not None and mixed.dtypes["weights"] != "fp32"
    if dtypes == {"float32"} and (would_be_shorter or (contents.layout is None and not has_master)):
        return {"training.precision": "fp32"}
    return {"training.precision": "bf16"} if dtypes == {"bfloat16"} and "bf16" in keeps else {}
