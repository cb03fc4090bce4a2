"""Read a checkpoint's path into its CheckpointContents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from sizing.checkpoint_files.adapters import stored_adapters
from sizing.checkpoint_files.container import Container, StoredTensor
from sizing.checkpoint_files.contents import (
    ADAPTER,
    FORMAT,
    PARTS,
    SMALL_STATES,
    CheckpointContents,
    CheckpointFile,
    Format,
    Held,
    Part,
    SmallState,
    TensorTotal,
)
from sizing.checkpoint_files.dtypes import FLOATING, NOT_STATED
from sizing.checkpoint_files.folder import container_of_file, names_beside, read_folder
from sizing.checkpoint_files.folder_layouts import (
    DDP,
    DEEPSPEED,
    FSDP2,
    SHARD_GROUP,
    ZERO_STAGE,
    FolderLayout,
    is_settings,
    layouts_of,
    state_of_file,
    state_of_name,
)
from sizing.checkpoint_files.missing_files import (
    MissingFile,
    fewer_than_beside,
    may_hold_part_of_weights,
    missing_files,
    uncounted_shards,
)
from sizing.checkpoint_files.optimizers import optimizer_of
from sizing.checkpoint_files.parts import is_average, is_named_as_weight, parts_of
from sizing.checkpoint_files.rank_copies import FSDP_WEIGHTS, Weight, copies
from sizing.checkpoint_files.saving_ranks import degrees_of
from sizing.checkpoint_files.untrusted import is_folder, printable, regular_file_bytes
from sizing.units import bytes_text, counted_text

PartedTensor = tuple[Part, StoredTensor]

PACKED = "Weights are stored as integers. One element may hold several parameters, so parameters are not counted"
COPIES = "Weights are in files of {kinds}. If these are copies of one model, inspect one of them alone"
STRAY = "{count} that no trainer is known to save, {size}, not counted: {name}{more}"
MISSING = "{name} is missing: {reason}{more}"
OPTIONAL = "{name} is missing: {reason}{more}. A run goes on without it, with other random numbers"
UNCOUNTED = "Folder {folder} {reason}: the last may be missing"
AVERAGE = (
    "A moving average of the weights (EMA) is saved too, {count:,} values in {dtypes}, {size}: to count it without "
    "checkpoint.observed_bytes, give training.saved_state.ema"
)
COPIED = "Copies of weights in several files: {count:,}. As parameters they count once"


def contents_of(path: Path) -> CheckpointContents:
    """Read the contents of the checkpoint in a file or folder, without loading a tensor or running a pickle.

    Raises UnreadableFile if it is missing, damaged, or of a kind that is not read.
    """
    if is_folder(path):
        folder = read_folder(path)
        return _summarize(path, folder.containers, folder.files, beside=names_beside(path))
    return contents_of_container(container_of_file(path))


def contents_of_container(container: Container) -> CheckpointContents:
    """Read the contents of one container."""
    return _summarize(container.paths[0].parent, (container,), container.paths)


def _summarize(
    root: Path,
    containers: tuple[Container, ...],
    paths: tuple[Path, ...],
    *,
    beside: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> CheckpointContents:
    parted = [list(zip(parts_of(container), container.tensors, strict=True)) for container in containers]
    totals = _sum_tensors(tensor for own in parted for tensor in own)
    weights = [Weight(number, tensor) for number, own in enumerate(parted) for part, tensor in own if part == "weights"]
    copied = list(copies(containers, weights))
    files = tuple(_list_files(root, containers, parted, paths))
    layouts = layouts_of([file.name for file in files], [key for container in containers for key in container.keys])
    own = [file for file in files if file.holds]
    disk_bytes = sum(file.num_bytes for file in own)
    stated = {str(each.paths[0].relative_to(root)): each.ranks for each in containers if each.ranks is not None}
    names = [file.name for file in files]
    lost = missing_files(names, stated)
    if all(each.is_optional for each in lost):
        lost = list({each.name: each for each in (*fewer_than_beside(names, beside), *lost)}.values())
    missing = [each for each in lost if not each.is_optional]
    uncounted = [] if missing else uncounted_shards(names, stated)
    optimizer = optimizer_of(containers, [t for tensors in parted for part, t in tensors if part == "moments"])
    degrees = degrees_of([file.name for file in own], list(stated.values()))
    of_peft = [c for c in containers if c.paths[0].stem == "adapter_model"]
    adapters = stored_adapters(tensor for container in of_peft for tensor in container.tensors) if of_peft else None
    fields = _choose_framework_fields(containers, layouts, totals, optimizer, num_ranks=degrees.get("data", 1))
    fields = fields | (adapters.fields if adapters is not None else {})
    tensor_bytes = sum(total.tensor_bytes for total in totals)
    tensor_bytes += sum(container.known_tensor_bytes or 0 for container in containers)  # as an index states
    states_dtypes = all(total.dtype != NOT_STATED for total in totals)
    formats = {container.format for container in containers}
    part_bytes = {part: sum(total.tensor_bytes for total in totals if total.part == part) for part in PARTS}
    absent = tuple(name for container in containers for name in container.absent_files)
    return CheckpointContents(
        format=formats.pop() if len(formats) == 1 else "mixed",
        layout=layouts[0].name if layouts else None,
        fields=fields,
        flags=" ".join(
            f"--{name.partition('.')[2].replace('.', '-').replace('_', '-')} {value}" for name, value in fields.items()
        ),
        degrees=degrees,
        optimizer=optimizer,
        num_parameters=None
        if any(may_hold_part_of_weights(each.name) for each in missing)
        else _count_parameters(containers, parted, totals, num_copied=sum(c.tensor.num_elements for c in copied)),
        disk_bytes=disk_bytes,
        tensor_bytes=tensor_bytes,
        overhead_bytes=disk_bytes - tensor_bytes if states_dtypes and not absent else None,
        part_bytes={part: num_bytes for part, num_bytes in part_bytes.items() if num_bytes},
        small_state_bytes=_sum_small_states(containers, files),
        num_aliases=sum(tensor.is_alias for tensors in parted for _, tensor in tensors),
        largest_file=max(own or files, key=lambda file: file.num_bytes),
        tensors=totals,
        files=files,
        absent_files=absent,
        missing_files=tuple(printable(each.name) for each in missing),
        notes=tuple(
            dict.fromkeys(
                (
                    *(UNCOUNTED.format(folder=printable(each.name), reason=each.reason) for each in uncounted),
                    *(adapters.notes if adapters is not None else ()),
                    *_list_notes(containers, parted, totals, files, lost=lost, copied=copied),
                )
            )
        ),
    )


def _choose_framework_fields(
    containers: tuple[Container, ...],
    layouts: list[FolderLayout],
    totals: tuple[TensorTotal, ...],
    optimizer: str | None,
    *,
    num_ranks: int,
) -> dict[str, str]:
    """Return the scenario fields that choose the framework of these files, its ZeRO stage and its format.

    Weights and optimizer of a script, in one file or in one each, count as those that rank 0 saves of DDP. Trainer and
    accelerate save shards of FSDP in two folders; what FSDP gathers has a name of its own.
    """
    fields = dict(layouts[-1].fields) if layouts else {}
    stages = {container.ranks.zero_stage for container in containers if container.ranks is not None} - {None}
    if fields == DEEPSPEED and len(stages) == 1:
        return fields | {ZERO_STAGE: str(stages.pop())}
    parts, formats = {total.part for total in totals}, {container.format for container in containers}
    is_resumable = (optimizer is not None or "moments" in parts) and bool(parts & {"weights", "master"})
    is_of_none = not layouts or layouts[-1].name == ADAPTER
    if is_resumable and is_of_none and "master" not in parts and formats <= {"torch-dcp", "torch-save", "safetensors"}:
        fields = FSDP2 if "torch-dcp" in formats else DDP
    if is_resumable and fields == FSDP2 and formats <= {"torch-save", "safetensors"}:
        return fields | {FORMAT: "full"}
    paths = {path for container in containers for path in container.paths}
    if "pytorch_model_fsdp_0" in {path.parent.name for path in paths} and "torch-dcp" in formats:
        return fields | {FORMAT: "accelerate-fsdp"}
    if FSDP_WEIGHTS in {path.name for path in paths} and num_ranks > 1:
        return fields | {SHARD_GROUP: str(num_ranks)}
    return fields


def _sum_tensors(parts: Iterable[PartedTensor]) -> tuple[TensorTotal, ...]:
    """Sum tensors by part and dtype, parts in their usual order, then by bytes, the largest first."""
    groups: dict[tuple[Part, str], list[StoredTensor]] = defaultdict(list)
    for part, tensor in parts:
        if not tensor.is_alias:
            groups[part, tensor.dtype].append(tensor)
    totals = [
        TensorTotal(
            part=part,
            dtype=dtype,
            num_tensors=len(tensors),
            num_parameters=sum(tensor.num_elements for tensor in tensors),
            tensor_bytes=sum(tensor.num_bytes for tensor in tensors),
        )
        for (part, dtype), tensors in groups.items()
    ]
    return tuple(sorted(totals, key=lambda total: (PARTS.index(total.part), -total.tensor_bytes, total.dtype)))


def _count_parameters(
    containers: tuple[Container, ...],
    parted: list[list[PartedTensor]],
    totals: tuple[TensorTotal, ...],
    *,
    num_copied: int,
) -> int | None:
    """Count the elements of the weights, each once; None if an element is not one parameter or a count is unknown.

    If there are no weights, their fp32 copy counts, provided that it is whole tensors, as in a universal checkpoint,
    or where the only container names them as weights.
    """
    stated = [  # by an index of absent files, or by ZeRO 3 of a partitioned model
        container.known_parameters
        for container in containers
        if (container.absent_files and not container.tensors) or container.known_parameters is not None
    ]
    if None in stated or _packs_weights(totals):
        return None
    counted = sum(total.num_parameters for total in totals if total.part == "weights") - num_copied
    num_weights = counted + sum(count or 0 for count in stated)
    whole_copies = (
        tensor
        for container, own in zip(containers, parted, strict=True)
        for part, tensor in own
        if (container.paths[0].name == "fp32.pt" and "param" in container.keys)
        or (part == "master" and len(containers) == 1 and is_named_as_weight(tensor))
    )
    return num_weights or sum(tensor.num_elements for tensor in whole_copies) or None


def _packs_weights(totals: tuple[TensorTotal, ...]) -> bool:
    return any(total.part == "weights" and total.dtype not in FLOATING | {NOT_STATED} for total in totals)


def _list_files(
    root: Path, containers: tuple[Container, ...], parted: list[list[PartedTensor]], paths: tuple[Path, ...]
) -> Iterator[CheckpointFile]:
    formats: dict[Path, Format] = {path: container.format for container in containers for path in container.paths}
    held = {
        path: _list_kinds_of_state(c, tensors)
        for c, tensors in zip(containers, parted, strict=True)
        for path in c.paths
    }
    for path in paths:
        name = printable(str(path.relative_to(root)))
        small = state_of_file(name)
        yield CheckpointFile(
            name=name,
            num_bytes=regular_file_bytes(path),
            format=formats.get(path, "other"),
            holds=(small,) if small else held.get(path) or (("settings",) if path in held or is_settings(name) else ()),
        )


def _list_kinds_of_state(container: Container, tensors: list[PartedTensor]) -> tuple[Held, ...]:
    """List the kinds of state that the files of a container hold."""
    parts = {part for part, _ in tensors} if tensors else {"weights"} if container.known_tensor_bytes else set()
    small = {state_of_name(name) for name in (*container.keys, *(name for name, _ in container.value_bytes))}
    return (
        *(("weights",) if "weights" in parts else ()),
        *(("optimizer",) if parts & {"master", "moments"} or container.settings else ()),
        *(kind for kind in SMALL_STATES if kind in small),
    )


def _sum_small_states(containers: tuple[Container, ...], files: tuple[CheckpointFile, ...]) -> dict[SmallState, int]:
    sums: dict[SmallState, int] = dict.fromkeys(SMALL_STATES, 0)
    for file in files:
        for kind in SMALL_STATES:
            sums[kind] += file.num_bytes if file.holds == (kind,) else 0
    for container in containers:
        for name, num_bytes in container.value_bytes:
            sums[state_of_name(name) or "settings"] += num_bytes
    return {kind: num_bytes for kind, num_bytes in sums.items() if num_bytes}


def _list_notes(
    containers: tuple[Container, ...],
    parted: list[list[PartedTensor]],
    totals: tuple[TensorTotal, ...],
    files: tuple[CheckpointFile, ...],
    *,
    lost: list[MissingFile],
    copied: list[Weight],
) -> Iterator[str]:
    for text, is_optional in ((MISSING, False), (OPTIONAL, True)):
        if missing := [each for each in lost if each.is_optional == is_optional]:
            more = f"; and {counted_text(len(missing) - 1, 'more file')}" if len(missing) > 1 else ""
            yield text.format(name=printable(missing[0].name), reason=missing[0].reason, more=more)
    if stray := sorted((file for file in files if not file.holds), key=lambda file: -file.num_bytes):
        more = f" and {len(stray) - 1} more" if len(stray) > 1 else ""
        size = bytes_text(sum(file.num_bytes for file in stray))
        yield STRAY.format(count=counted_text(len(stray), "file"), size=size, name=stray[0].name, more=more)
    for container in containers:
        yield from container.notes
    average = [each for tensors in parted for _, each in tensors if is_average(each) and each.dtype in FLOATING]
    if average:
        dtypes = " and ".join(sorted({each.dtype for each in average}))
        count = sum(each.num_elements for each in average)
        size = bytes_text(sum(each.num_bytes for each in average))
        yield AVERAGE.format(count=count, dtypes=dtypes, size=size)
    if _packs_weights(totals):
        yield PACKED
    known = {(weight.container, id(weight.tensor)) for weight in copied}
    kinds = sorted(
        {
            container.format
            for number, (container, tensors) in enumerate(zip(containers, parted, strict=True))
            if any(part == "weights" and (number, id(tensor)) not in known for part, tensor in tensors)
        }
    )
    if len(kinds) > 1:
        yield COPIES.format(kinds=" and ".join(kinds))
    if copied:
        yield COPIED.format(count=len(copied))
