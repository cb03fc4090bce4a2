"""Sizes read off existing checkpoints: safetensors, torch DCP and torch.save, never by plain unpickling."""

from sizing.checkpoint_files.contents import CheckpointContents, CheckpointFile, TensorTotal
from sizing.checkpoint_files.reading import contents_of

__all__ = ["CheckpointContents", "CheckpointFile", "TensorTotal", "contents_of"]
