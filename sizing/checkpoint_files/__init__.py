"""Read the sizes of existing checkpoints: safetensors, torch DCP, torch.save and Orbax. Nothing is unpickled."""

from typing import TYPE_CHECKING

from sizing.late_names import late_names

if TYPE_CHECKING:
    from sizing.checkpoint_files.contents import CheckpointContents, CheckpointFile, TensorTotal
    from sizing.checkpoint_files.reading import contents_of

__all__ = ["CheckpointContents", "CheckpointFile", "TensorTotal", "contents_of"]

__getattr__ = late_names(
    __name__,
    {
        "CheckpointContents": "contents",
        "CheckpointFile": "contents",
        "TensorTotal": "contents",
        "contents_of": "reading",
    },
)
