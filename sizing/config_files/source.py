"""Files of settings, each as one or several sources: settings by name with the place where they stand."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

import yaml
from pydantic import Field

from sizing.documents import parse_json, parse_yaml
from sizing.field_paths import flattened
from sizing.strict_model import StrictModel


class ConfigText(StrictModel):
    """A config file: its name and its content."""

    name: str = Field(description="Name of the file, which the answer names it by.", min_length=1, max_length=300)
    content: str = Field(
        description="Settings as TOML, YAML or JSON, or a shell script, word for word.", max_length=4_000_000
    )


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A value that the file does not say: a variable that is set elsewhere, or differs between branches of a script.

    `end`: the text behind what is not said, such as the name of a model in a folder of the environment.
    """

    why: str
    end: str = field(default="", compare=False, repr=False)


DIFFERS = Unresolved("differs between branches of the script")

_HOLE = re.compile("\ue000([0-9a-f]*)\ue001")


def with_hole(why: Unresolved) -> str:
    """Return the text that stands within a longer one for what the file does not say. No shell expands or splits it."""
    return f"\ue000{why.why.encode().hex()}\ue001"


def without_holes(text: str) -> str:
    """Return a text with a star for each part that is not known, to show."""
    return _HOLE.sub("*", text)


def is_hole(text: Any) -> bool:
    """Whether a word is not known at all."""
    return isinstance(text, Unresolved) or (isinstance(text, str) and _HOLE.fullmatch(text) is not None)


def find_hole(text: Any) -> Unresolved | None:
    """Return what a value or a text does not say, or None where it says all."""
    if isinstance(text, Unresolved):
        return text
    hole = _HOLE.search(text) if isinstance(text, str) else None
    return (
        None if hole is None else Unresolved(bytes.fromhex(hole[1][: len(hole[1]) // 2 * 2]).decode(errors="replace"))
    )


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of a file: its name, its value, and the place where people find it."""

    name: str
    value: Any
    place: str


@dataclass(frozen=True)
class ConfigSource:
    """Settings that belong together: those of a document, or of one command of a launch script.

    Names are dotted paths of a document, or of a command those that its flags have in Python: `num_layers` of
    `--num-layers`. Settings of a launcher (torchrun, srun, deepspeed) begin with `launcher.`. `document`: the whole
    document, of a file that is one. `words`: positional words of a command.
    """

    file: str
    settings: Mapping[str, Setting]
    document: Mapping[str, Any] | None = None
    words: tuple[str, ...] = ()

    def matching(self, pattern: str) -> list[str]:
        """List the names that match a pattern, such as `checkpoint.*`."""
        if not any(sign in pattern for sign in "*?["):
            return [pattern] if pattern in self.settings else []
        return [name for name in self.settings if fnmatchcase(name, pattern)]


def document_source(file: str, document: Mapping[str, Any]) -> ConfigSource:
    """Return the settings of a parsed document by dotted path. Lists are values; empty mappings are none."""
    leaves = flattened(document, opens=lambda *_: False)
    settings = {name: Setting(name, value, f"{file}: {name}") for name, value in leaves}
    return ConfigSource(file, settings, document)


def open_blocks(source: ConfigSource, names: Collection[str]) -> ConfigSource:
    """Return a source in which settings of these names that are mappings are settings by dotted path, as of a document.

    >>> flag = Setting("fsdp_config", {"version": 2}, "train.sh, line 3: --fsdp_config")
    >>> list(open_blocks(ConfigSource("train.sh", {"fsdp_config": flag}), ["fsdp_config"]).settings)
    ['fsdp_config.version']
    """
    settings: dict[str, Setting] = {}
    for name, setting in source.settings.items():
        if name in names and isinstance(setting.value, Mapping):
            place = setting.place.removesuffix(name)
            opened = document_source(source.file, {name: setting.value}).settings
            settings |= {path: replace(leaf, place=f"{place}{path}") for path, leaf in opened.items()}
        else:
            settings[name] = setting
    return replace(source, settings=settings)


_BEGIN_OF_TOML = re.compile(r"\s*(\[\[?[\w.\"' -]+\]\]?\s*(#.*)?$|[\w.\"'-]+\s*=)")
"""First line of TOML: the name of a table in brackets, or a name and an equals sign."""


def parse_settings(text: str) -> Mapping[str, Any]:
    """Parse a TOML, JSON or YAML text of settings.

    Raises ValueError with the reason where it is none.
    """
    reasons = []
    for parse in (_parse_json, tomllib.loads, _parse_tolerant_yaml):
        try:
            document = parse(text)
        except yaml.MarkedYAMLError as error:
            place = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
            reasons.append(f"{error.problem or 'no YAML'}{place}")
            continue
        except (ValueError, yaml.YAMLError, RecursionError) as error:
            reasons.append(" ".join(str(error).split())[:200])
            continue
        if isinstance(document, Mapping):
            return document
        reasons.append("it has no settings")
    first_line = next((line for line in text.splitlines() if line.strip() and line.lstrip()[0] != "#"), "")
    if _BEGIN_OF_TOML.match(first_line):
        raise ValueError(reasons[1])
    raise ValueError(reasons[0 if _looks_like_json(text) else -1])


def _looks_like_json(text: str) -> bool:
    return text.lstrip().startswith(("{", "["))


def _parse_json(text: str) -> Any:
    if not _looks_like_json(text):
        raise ValueError("no JSON")
    return parse_json(text)


def _parse_tolerant_yaml(text: str) -> Any:
    """Parse YAML; what has a tag of its own (`!ENV`, `!!python/name`) is a value that the file does not say."""
    try:
        return parse_yaml(text)
    except yaml.constructor.ConstructorError:
        return yaml.load(text, Loader=_TolerantLoader)  # noqa: S506  a SafeLoader


class _TolerantLoader(yaml.SafeLoader):
    """A SafeLoader that constructs nothing from tags that it does not know."""


def _construct_nothing(_loader: yaml.SafeLoader, tag: str, _node: yaml.Node) -> Unresolved:
    return Unresolved(f"is tagged {tag or '!'}")


_TolerantLoader.add_multi_constructor("", _construct_nothing)


_WORDS = {"True": True, "False": False, "None": None, "null": None}


def plain_value(text: Any) -> Any:
    """Read a word as the number, truth or list that it is, or leave it a text.

    >>> [plain_value(each) for each in ("8", "1e-4", "True", "[1,2]", "llama3", "")]
    [8, 0.0001, True, [1, 2], 'llama3', '']
    """
    if not isinstance(text, str):
        return text
    if (hole := find_hole(text)) is not None:
        return Unresolved(hole.why, _HOLE.split(text)[-1])
    if text in _WORDS:
        return _WORDS[text]
    try:
        value = json.loads(text)
    except ValueError:
        if not text.startswith(("[", "{")):
            return text
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            return text
    return value


@dataclass(slots=True)
class SourceBuilder:
    """Collects the settings of a command; of a flag that is given twice the last one holds, as in argparse."""

    file: str
    settings: dict[str, Setting] = field(default_factory=dict)

    def add(self, name: str, value: Any, place: str) -> None:
        """Add a setting; it takes the place of one with the same name."""
        self.settings[name] = Setting(name, value, place)
