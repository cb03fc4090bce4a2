"""What an existing checkpoint tells of its run: the flags of `ckpt-size`, and what to know before using them."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.checkpoint_files.contents import CheckpointContents


def inspected_flags(contents: CheckpointContents) -> dict[str, str]:
    """Parameter and value of the flags that this checkpoint tells, in the order in which they are written.

    Its bytes are those of a checkpoint only where a run can go on from it.
    """
    is_known = contents.num_parameters is not None and not contents.is_adapter
    known = {"parameters": str(contents.num_parameters)} if is_known else {}
    observed = {"observed_bytes": str(contents.observed_bytes)} if contents.is_whole else {}
    return known | framework_flags(contents) | observed


def framework_flags(contents: CheckpointContents) -> dict[str, str]:
    """Those of them that follow from whose checkpoint it is, by its names."""
    words = f"{contents.flags} {_precision(contents)}".split()
    return {
        flag.removeprefix("--").replace("-", "_"): value for flag, value in zip(words[::2], words[1::2], strict=True)
    }


def inspected_notes(contents: CheckpointContents) -> Iterator[str]:
    """What could not be read, and that no run can go on from it."""
    yield from contents.notes
    if contents.is_adapter:
        yield "The weights are those of an adapter alone: name the model that it is for, and give training.adapters"
    if not contents.is_whole:
        missing = "weights" if _has_moments(contents) else "optimizer state"
        yield f"The checkpoint has no {missing}. No run can go on from it, so its bytes are left out"


def unknown_parameters(contents: CheckpointContents) -> str:
    """Why the number of parameters is not known, as the end of a sentence about the checkpoint."""
    if contents.is_adapter:
        return "is an adapter, which does not tell the model's number of parameters"
    if _has_moments(contents) and not contents.is_whole:
        return "has optimizer state alone, which does not tell the model's number of parameters"
    return "does not tell the model's number of parameters"


def _has_moments(contents: CheckpointContents) -> bool:
    return any(total.part == "moments" for total in contents.tensors)


def _precision(contents: CheckpointContents) -> str:
    """The flag of a run that keeps one dtype, where one of mixed precision would save others.

    That is bf16 alone in the frameworks that have such runs, and fp32 without a master copy where no framework is told:
    the default one would save bf16 weights beside one.
    """
    dtypes = {total.dtype for total in contents.tensors if total.part in ("weights", "master", "moments")}
    if not contents.is_whole or len(dtypes) > 1:
        return ""
    keeps_one = any(f"--framework {name}" in contents.flags for name in ("fsdp2", "torchtitan"))
    has_master = any(total.part == "master" for total in contents.tensors)
    if dtypes == {"float32"} and not contents.flags and not has_master:
        return "--precision fp32"
    return "--precision bf16" if dtypes == {"bfloat16"} and keeps_one else ""
