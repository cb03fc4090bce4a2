"""The classes and functions that a checkpoint's pickle may name. None of them is imported or called.

They are written by torch 2.5 to 2.13, Megatron-LM (own list: `megatron/core/safe_globals.py`) or DeepSpeed. Any other
name is refused, so that no file is half understood in silence.
"""

from __future__ import annotations

from sizing.checkpoint_files.dtypes import STORAGE_DTYPES, TORCH_DTYPE_BITS

_DTYPES = frozenset(f"torch.{name}" for name in TORCH_DTYPE_BITS)
_PATHS = frozenset(
    f"{module}.{name}"
    for module in ("pathlib", "pathlib._local")
    for name in ("Path", "PosixPath", "WindowsPath", "PurePath", "PurePosixPath", "PureWindowsPath")
)
_ENUMERATION_LOOKUP = frozenset({"builtins.getattr", "__builtin__.getattr"})  # how Python 3.11 pickles one

DCP_METADATA = "torch.distributed.checkpoint.metadata"
DCP_FILESYSTEM = "torch.distributed.checkpoint.filesystem"
DCP_PLANNER = "torch.distributed.checkpoint.planner"
SHARDED_TENSOR = "torch.distributed._shard.sharded_tensor.metadata"
MEGATRON_STRATEGY = "megatron.core.dist_checkpointing.strategies.torch"
METADATA_CLASSES = frozenset({f"{DCP_METADATA}.Metadata", f"{MEGATRON_STRATEGY}.MCoreMetadata"})

DCP_NAMES = (
    frozenset(
        {
            f"{DCP_METADATA}.TensorStorageMetadata",
            f"{DCP_METADATA}.BytesStorageMetadata",
            f"{DCP_METADATA}.TensorProperties",
            f"{DCP_METADATA}.ChunkStorageMetadata",
            f"{DCP_METADATA}.MetadataIndex",
            f"{DCP_METADATA}.StorageMeta",
            f"{DCP_METADATA}._MEM_FORMAT_ENCODING",
            f"{DCP_FILESYSTEM}._StorageInfo",
            f"{SHARDED_TENSOR}.TensorProperties",
            f"{SHARDED_TENSOR}.MEM_FORMAT_ENCODING",
            # the plans of all ranks, which Megatron keeps in the metadata to use them again
            f"{DCP_PLANNER}.SavePlan",
            f"{DCP_PLANNER}.WriteItem",
            f"{DCP_PLANNER}.WriteItemType",
            f"{DCP_PLANNER}.TensorWriteData",
            f"{DCP_PLANNER}.BytesIOWriteData",
            f"{MEGATRON_STRATEGY}.MCoreSavePlan",
            "torch.Size",
            "torch.serialization._get_layout",
            "collections.OrderedDict",
        }
    )
    | METADATA_CLASSES
    | _DTYPES
    | _PATHS
    | _ENUMERATION_LOOKUP
)
"""Names in a DCP `.metadata` file."""

REBUILD_TENSOR = frozenset(
    f"torch._utils.{name}"
    for name in ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_qtensor")
)
"""Functions whose first four arguments are storage, offset, shape and strides."""

REBUILD_FROM_TYPE = "torch._tensor._rebuild_from_type_v2"

_PYTHON = frozenset(
    f"{module}.{name}"
    for module in ("builtins", "__builtin__")
    for name in ("set", "frozenset", "complex", "bytearray", "slice", "range", "int", "float", "list", "dict")
) | {
    "_codecs.encode",
    "_io.BytesIO",
    "argparse.Namespace",
    "collections.Counter",
    "collections.OrderedDict",
    "collections.defaultdict",
    "collections.deque",
    "datetime.timedelta",
    "signal.Signals",
    "types.SimpleNamespace",
}
_NUMPY = frozenset(
    f"numpy.{core}.{name}"
    for core in ("core", "_core")
    for name in ("multiarray._reconstruct", "multiarray.scalar", "numeric._frombuffer")
) | {"numpy.dtype", "numpy.ndarray"}

TORCH_SAVE_NAMES = (
    frozenset(f"torch.{name}" for name in STORAGE_DTYPES)
    | REBUILD_TENSOR
    | {
        REBUILD_FROM_TYPE,
        "torch._utils._rebuild_parameter",
        "torch._utils._rebuild_parameter_with_state",
        "torch._utils._rebuild_sparse_tensor",
        "torch._utils._rebuild_meta_tensor_no_storage",
        "torch._utils._rebuild_device_tensor_from_cpu_tensor",
        "torch.nn.parameter.Parameter",
        "torch.nn.parameter.Buffer",
        "torch.storage.UntypedStorage",
        "torch.Size",
        "torch.Tensor",
        "torch._C.Generator",
        "torch.device",
        "torch.serialization._get_layout",
        "torch.per_channel_affine",
        "torch.per_tensor_affine",
    }
    | _DTYPES
    | _PATHS
    | _ENUMERATION_LOOKUP
    | _PYTHON
    | _NUMPY
)
"""Names in the `data.pkl` of a torch.save file."""

SETTINGS_PACKAGES = ("megatron.", "deepspeed.")
"""Packages whose classes hold settings beside the tensors: enumerations, loss scalers, fragment addresses."""


def allowed_in_dcp(name: str) -> bool:
    """Return whether a `.metadata` file may mention a dotted name.

    >>> allowed_in_dcp("torch.Size"), allowed_in_dcp("os.system")
    (True, False)
    """
    return name in DCP_NAMES


def allowed_in_torch_save(name: str) -> bool:
    """Return whether the pickle of a torch.save file may mention a dotted name.

    >>> allowed_in_torch_save("megatron.core.enums.ModelType"), allowed_in_torch_save("builtins.eval")
    (True, False)
    """
    return name in TORCH_SAVE_NAMES or name.startswith(SETTINGS_PACKAGES)
