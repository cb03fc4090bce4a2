"""An importer: the config files of one framework or trainer, and what their settings are in a scenario."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from sizing.config_files.reader import SettingReader
from sizing.config_files.source import ConfigSource
from sizing.state.training import FrameworkName

_OTHER_PROGRAMS = re.compile(
    r"(^|[/._-])(decode|convert\w*|to_maxtext|to_huggingface|\w*checker|preprocess\w*|\w*generat\w*|eval\w*|\w*_eval|inference\w*"
    r"|\w*server|export\w*|tokenize\w*|merge\w*|benchmark_serving)(\.|$)"
)
"""Programs with a training's settings that train nothing: conversion, evaluation, inference."""

_SURE = 1000
"""Marks that a sure mark counts as: more than any importer has, so that it settles which one reads a file."""


def trains_nothing(source: ConfigSource) -> bool:
    """Whether a source is a command of a program that converts, evaluates or serves."""
    return source.document is None and any(map(_OTHER_PROGRAMS.search, map(str.lower, source.words[:2])))


@dataclass(frozen=True, kw_only=True)
class Importer:
    """Reader of one kind of config file.

    `frameworks`: those that its files train with. `version`: that in which names and defaults were read, from
    `source`. `marks`: settings (patterns) that its files have and others do not; the importer with most of them reads
    a file, if these are at least `min_marks`; one of `sure_marks`, or settings joined by + together, settles it, and so
    does a command of one of `programs` (patterns). `needs_sure_mark`: without one the importer reads no file, as its
    other marks are those of other trainers too.
    `defaults`: what the framework ships for what matters, by name. `ignored`: settings (patterns) that change no
    figure here: logging, data, learning rates. `read`: sets fields from settings. `rank`: importers are asked in this
    order, the ones that others rely on first. `rename`: turns the names of a source into those that the importer
    reads, where its files have several forms.
    """

    name: str
    title: str
    version: str
    source: str
    frameworks: tuple[FrameworkName, ...]
    marks: tuple[str, ...]
    read: Callable[[SettingReader], None]
    ignored: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    min_marks: int = 1
    sure_marks: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    needs_sure_mark: bool = False
    rank: int = 0
    rename: Callable[[ConfigSource], ConfigSource] = lambda source: source

    def count_marks(self, source: ConfigSource) -> int:
        """Count the marks that a source has; a command that converts, evaluates or serves has none."""
        if trains_nothing(source):
            return 0
        renamed = self.rename(source)
        is_sure = self.is_started_by(source) or any(
            all(map(renamed.matching, mark.split("+"))) for mark in self.sure_marks
        )
        if self.needs_sure_mark and not is_sure:
            return 0
        return sum(bool(renamed.matching(mark)) for mark in self.marks) + _SURE * is_sure

    def is_started_by(self, source: ConfigSource) -> bool:
        """Whether a command is one of this trainer's programs."""
        return any(fnmatchcase(word, pattern) for word in source.words[:2] for pattern in self.programs)
