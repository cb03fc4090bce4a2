"""Checkpoint formats: each is one object in one module, listed in the registry."""

from sizing.layout.formats.base import CheckpointFormat, Mode
from sizing.layout.formats.checks import check_format, check_resharding, is_allowed
from sizing.layout.formats.registry import FORMATS, FormatName, format_of, formats_of, with_format_of_framework

__all__ = [
    "FORMATS",
    "CheckpointFormat",
    "FormatName",
    "Mode",
    "check_format",
    "check_resharding",
    "format_of",
    "formats_of",
    "is_allowed",
    "with_format_of_framework",
]
