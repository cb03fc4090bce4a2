"""Read the sizes of existing checkpoints: safetensors, torch DCP, torch.save and Orbax. Nothing is unpickled."""

from sizing.checkpoint_files.contents import CheckpointContents, CheckpointFile, TensorTotal
from sizing.checkpoint_files.reading import contents_of

__all__ = ["CheckpointContents", "CheckpointFile", "TensorTotal", "contents_of"]
