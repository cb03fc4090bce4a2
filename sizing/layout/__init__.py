"""Who holds and who writes: parallel degrees, rank classes, formats and their files."""

from sizing.layout.file_settings import CheckpointFiles
from sizing.layout.layout import LaidOut, lay_out
from sizing.layout.parallelism import Parallelism
from sizing.layout.ranks import Layout, WritersOnNodes
from sizing.layout.size import CheckpointSize

__all__ = ["CheckpointFiles", "CheckpointSize", "LaidOut", "Layout", "Parallelism", "WritersOnNodes", "lay_out"]
