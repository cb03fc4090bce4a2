"""Facts of each training framework: the state that it keeps, shards and offloads, and the defaults that it ships."""

from sizing.frameworks.framework import Framework
from sizing.frameworks.registry import FRAMEWORKS
from sizing.frameworks.saved_parts import base_dtype, resident_parts, resident_statistics, saved_parts

__all__ = ["FRAMEWORKS", "Framework", "base_dtype", "resident_parts", "resident_statistics", "saved_parts"]
