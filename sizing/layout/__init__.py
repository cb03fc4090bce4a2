"""The ranks that hold the state and those that write it: parallel degrees, rank classes, formats and their files."""

from sizing.layout.layout import CheckpointFiles, CheckpointLayout, lay_out
from sizing.layout.parallelism import Parallelism
from sizing.layout.ranks import Layout, WritersOnNodes
from sizing.layout.size import CheckpointSize

__all__ = [
    "CheckpointFiles",
    "CheckpointLayout",
    "CheckpointSize",
    "Layout",
    "Parallelism",
    "WritersOnNodes",
    "lay_out",
]
