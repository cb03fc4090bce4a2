"""Who holds and who writes: parallel degrees, rank classes, formats and their files."""

from sizing.layout.checkpoint import CheckpointFiles
from sizing.layout.layout import CheckpointSize, LaidOut, Layout, lay_out
from sizing.layout.parallelism import Parallelism

__all__ = ["CheckpointFiles", "CheckpointSize", "LaidOut", "Layout", "Parallelism", "lay_out"]
