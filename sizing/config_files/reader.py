"""What an importer makes of settings: fields of a scenario, each with the place that it came from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field, JsonValue

from sizing.config_files.launchers import num_gpus_of
from sizing.config_files.source import DIFFERS, ConfigSource, Setting, Unresolved
from sizing.errors import InvalidInput, Problem, shown
from sizing.model.catalog import preset_of_name
from sizing.printed_numbers import read_count
from sizing.state.optimizers import optimizer_named
from sizing.state.training import FrameworkName
from sizing.strict_model import StrictModel

Fate = Literal["became", "default", "no-matter", "not-understood"]


class ImportedSetting(StrictModel):
    """A setting of a config file and what it became."""

    file: str = Field(description="Name of the file, or of the framework whose default it is.")
    setting: str = Field(description="Dotted path or flag, as the file has it.")
    value: JsonValue = Field(
        description="Its value, of settings that became a field or are a framework's default. Null of all others."
    )
    field: str | None = Field(description="Dotted path of the field that it became, or null.")
    became: JsonValue = Field(description="What the scenario has there, in its unit; null where it became no field.")
    note: str = Field("", description="Why it did not become a field, or how it did.")


class MissingField(StrictModel):
    """A field that the files do not give and that an answer needs."""

    field: str = Field(description="Dotted path of the field.")
    why: str = Field(description="What is not known without it.")
    is_required: bool = Field(False, description="Whether there is no answer without it.")


@dataclass(frozen=True, slots=True)
class _Given:
    """Value of a field and where it was given; `place` is empty of a framework's default."""

    value: Any
    place: str
    is_default: bool


@dataclass
class ScenarioDraft:
    """A scenario as the files give it so far, and the fate of each setting.

    A field that two settings give differently is a contradiction; a framework's default gives way to any setting.
    """

    fields: dict[str, _Given] = field(default_factory=dict)
    understood: list[ImportedSetting] = field(default_factory=list)
    defaults: list[ImportedSetting] = field(default_factory=list)
    not_understood: list[ImportedSetting] = field(default_factory=list)
    no_matter: list[ImportedSetting] = field(default_factory=list)
    needed: dict[str, MissingField] = field(default_factory=dict)
    doubted: dict[str, MissingField] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    are_gpus_launched: bool = False

    def set(self, path: str, value: Any, *, place: str, is_default: bool) -> bool:
        """Set a field, and return whether it now has this value; a contradiction becomes a problem.

        A field that is asked for has no default.
        """
        if is_default and path in self.needed:
            return False
        known = self.fields.get(path)
        if known is None or (known.is_default and not is_default):
            self.fields[path] = _Given(value, place, is_default)
            return True
        if is_default or known.value == value:
            return bool(known.value == value)
        rule = f"is {shown(known.value)} in {known.place} and {shown(value)} in {place}"
        self.problems.append(Problem(path, rule, "", "keep one, or give the files that belong together"))
        return False

    def value(self, path: str) -> Any:
        """Return the value of a field so far, or None."""
        known = self.fields.get(path)
        return None if known is None else known.value

    def leave_out(self, path: str, why: str) -> None:
        """Take a field back, and note why beside the settings that it came from."""
        if self.fields.pop(path, None) is None:
            return
        self.defaults = [row for row in self.defaults if row.field != path]
        self.understood = [
            row.model_copy(update={"field": None, "became": None, "note": why}) if row.field == path else row
            for row in self.understood
        ]

    def need(self, path: str, why: str) -> None:
        """Note that an answer needs a field that the files do not give."""
        is_required = path.startswith("model.") or path == "cluster.num_gpus"
        self.needed.setdefault(path, MissingField(field=path, why=why, is_required=is_required))


COUNTS = (
    "cluster.num_gpus",
    *(f"parallelism.{axis}" for axis in ("tensor", "pipeline", "context", "data", "expert", "virtual_pipeline")),
)
"""Fields that others are computed with while files are read."""
MAX_RANKS = 10_000_000
"""Ranks of the largest training by far: more is a typing error."""

_MISSING = object()

BESIDE_FILES = "what is given beside the files"
"""Place of what a request gives beside its files; it holds over the GPUs that a launcher starts."""


class SettingReader:
    """The settings of one source, as its importer reads them.

    What an importer asks for by `get` counts as read. What it sets by `put` names the settings that it came from: those
    that stand in the file are shown with it, and where none does, the value is the framework's default.
    """

    def __init__(
        self,
        source: ConfigSource,
        draft: ScenarioDraft,
        *,
        title: str,
        defaults: Mapping[str, Any],
        others: Sequence[tuple[str, ConfigSource]] = (),
    ) -> None:
        self.source = source
        self.draft = draft
        self._title = title
        self._defaults = defaults
        self._others = others
        self._read: set[str] = set()
        self._ignored: set[str] = set()
        self._told: set[str] = set()

    def take_defaults(self, title: str, defaults: Mapping[str, Any]) -> None:
        """Read with the defaults of a program on top of the importer's own: they go before, and bear its `title`."""
        self._title, self._defaults = title, {**self._defaults, **defaults}

    # What the file says.

    def has(self, name: str) -> bool:
        """Whether the file has the setting."""
        return name in self.source.settings

    def get(self, name: str, default: Any = _MISSING) -> Any:
        """Return the value of a setting; of one that the file leaves out the framework's default, or `default`.

        A value that the file does not say (an unset variable) is None, and is told as not understood.
        """
        setting = self.source.settings.get(name)
        if setting is None:
            return self._defaults.get(name) if default is _MISSING else default
        self._read.add(name)
        if isinstance(setting.value, Unresolved):
            self.not_understood(name, setting.value.why)
            return None
        return setting.value

    def path(self, name: str) -> Any:
        """Return a path or a name as `get` does; of a path in a folder that the file does not say, its known end."""
        setting = self.source.settings.get(name)
        if setting is None or not isinstance(setting.value, Unresolved) or "/" not in setting.value.end:
            return self.get(name)
        self._read.add(name)
        return setting.value.end

    def number(self, name: str, default: Any = _MISSING) -> Any:
        """Return the value of a setting that must be a number, as `get` does; another is told as not understood."""
        value = self.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float | None):
            if self.has(name):
                self.not_understood(name, "is no number")
            return None
        return value

    def is_on(self, name: str, default: Any = _MISSING) -> bool:
        """Whether a switch is on. `--flag` alone and `true` turn it on."""
        value = self.get(name, default)
        return value is True or (isinstance(value, str) and value.lower() in ("true", "yes", "on", "1"))

    def is_given(self, name: str) -> bool:
        """Whether a switch is given, or true in a document. What follows it in a script is not its value."""
        setting = self.source.settings.get(name)
        if setting is not None and isinstance(setting.value, Unresolved) and setting.value != DIFFERS:
            self._read.add(name)
            return True
        value = self.get(name)
        return value not in (None, False) and str(value).lower() not in ("false", "0")

    def is_unknown(self, *names: str) -> bool:
        """Whether the file has one of the settings with a value that it does not say."""
        return any(isinstance(self.source.settings[name].value, Unresolved) for name in names if self.has(name))

    def first(self, *names: str) -> str:
        """Return the first of several names that the file has, or the first of all."""
        return next((name for name in names if self.has(name)), names[0])

    def of_other(self, importer: str) -> ConfigSource | None:
        """Return the source that another importer reads beside this one, or None."""
        return next((source for name, source in self._others if name == importer), None)

    def names_of_others(self) -> list[str]:
        """Return the names of the importers that read the other sources."""
        return [name for name, _ in self._others]

    def sources_of_others(self) -> list[ConfigSource]:
        """Return the other sources."""
        return [source for _, source in self._others]

    @property
    def is_command(self) -> bool:
        """Whether the settings are flags of a command, and not a document."""
        return self.source.document is None

    def agree(self, name: str, other: Setting | None) -> None:
        """Note a contradiction where a setting of another file has another value than this one."""
        value = self.get(name)
        if other is not None and None not in (value, other.value) and value != other.value:
            rule = f"is {shown(value)} here and {shown(other.value)} in {other.place}"
            self.draft.problems.append(Problem(self.source.settings[name].place, rule, "", "keep one"))

    # What it becomes.

    def put(self, path: str, value: Any, *names: str, note: str = "") -> None:
        """Set a field of the scenario to a value that came from the named settings; None sets nothing.

        Raises InvalidInput for a degree or a number of GPUs that is no whole number, as others are computed with it.
        """
        self._read.update(name for name in names if self.has(name))
        is_count = path in COUNTS and value is not None
        if is_count and isinstance(value, str):
            value = read_count(value) or value
        if is_count and (isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MAX_RANKS):
            place = next((self.source.settings[name].place for name in names if self.has(name)), self.source.file)
            raise InvalidInput.of(place, "must be a whole number from 1 on", value=value, remedy="correct it")
        if value is None:
            if self.is_unknown(*names):
                self.need(path, f"{' and '.join(filter(self.is_unknown, names))} is not said")
            return
        present = [self.source.settings[name] for name in names if self.has(name)]
        place = " and ".join(setting.place for setting in present) or f"{self._title}'s defaults"
        is_set = self.draft.set(path, value, place=place, is_default=not present)
        if present and is_set:
            self.draft.understood.extend(self._row(setting, path, value, note) for setting in present)
            self._told.update(setting.name for setting in present)
        elif is_set:
            for name in names[:1]:
                shipped = _json(self._defaults.get(name))
                self.draft.defaults.append(
                    ImportedSetting(file=self._title, setting=name, value=shipped, field=path, became=_json(value))
                )

    def put_framework(self, name: FrameworkName, *, is_sure: bool = True) -> None:
        """Set the framework whose file this is; where that `is_sure` not, the framework of another file goes before."""
        self.draft.set("training.framework", name, place=self.source.file, is_default=not is_sure)

    def take(self, path: str, name: str, read: Callable[[Any], Any] | None = None) -> Any:
        """Set a field to the value of one setting, or to what `read` makes of it, and return that.

        Where `read` raises ValueError, its sentence says why the setting is not understood.
        """
        value = self.get(name)
        if value is None:
            self.put(path, None, name)
            return None
        try:
            became = value if read is None else read(value)
        except ValueError as error:
            self.not_understood(name, str(error))
            return None
        self.put(path, became, name)
        return became

    def put_data_degree(self, **model_parallel: str) -> int | None:
        """Set the data ranks that are left of the GPUs, and return them; None where the GPUs are not known.

        `model_parallel`: settings that gave the degrees of the other axes, by axis; they stand in the draft already.
        """
        num_gpus, product = self.draft.value("cluster.num_gpus"), 1
        if any(f"parallelism.{axis}" in self.draft.needed for axis in model_parallel):
            return None
        for axis in model_parallel:
            product *= self.draft.value(f"parallelism.{axis}") or 1
        if num_gpus is None:
            return None
        axes = " and ".join(model_parallel)
        if num_gpus % product and self.leave_out_launched(f"{product} ranks of {axes} do not divide {num_gpus} GPUs"):
            return None
        if num_gpus % product:
            places = [self.source.settings[name].place for name in model_parallel.values() if self.has(name)]
            rule = f"must be a multiple of {product}, the product of {' and '.join(model_parallel)}"
            remedy = f"change the GPUs or a degree ({', '.join(places) or 'defaults'})"
            self.draft.problems.append(Problem("cluster.num_gpus", rule, shown(num_gpus), remedy))
            return None
        self.draft.set("parallelism.data", num_gpus // product, place="the GPUs and the other degrees", is_default=True)
        return int(num_gpus // product)

    def put_model(self, value: Any, *names: str) -> bool:
        """Set the model by its name on the Hugging Face hub, or the last part of a path; tell where none is known.

        A config.json beside says more, and goes before the name.
        """
        if self.of_other("huggingface-config") is not None:
            self._read.update(name for name in names if self.has(name))
            return True
        preset = preset_of_name(value) if isinstance(value, str) else None
        if preset is None:
            for name in names:
                if self.has(name):
                    self.not_understood(
                        name, "is no model of the catalog: give its config.json beside, or model.preset"
                    )
            return False
        self.put("model.preset", preset, *names)
        return True

    def leave_out_launched(self, why: str) -> bool:
        """Ask for the GPUs in place of those that a launcher starts, and return whether one does.

        Scripts of one node are templates, where a job sets more.
        """
        if not self.draft.are_gpus_launched:
            return False
        self.draft.leave_out("cluster.num_gpus", f"is no number of GPUs for these degrees: {why}")
        self.draft.leave_out("parallelism.data", "follows from the GPUs")
        self.need("cluster.num_gpus", why)
        return True

    def put_gpus(self) -> int | None:
        """Set the number of GPUs by what the launcher starts, and return it."""
        found = num_gpus_of(self.source.settings)
        if found is None:
            return None
        num_gpus, names = found
        known = self.draft.fields.get("cluster.num_gpus")
        if known is not None and known.place == BESIDE_FILES:  # scripts have one node where a job sets more
            self._read.update(names)
            return int(known.value)
        self.draft.are_gpus_launched = True
        self.put("cluster.num_gpus", num_gpus, *names)
        return num_gpus

    def need(self, path: str, why: str) -> None:
        """Note that an answer needs a field that the file does not give."""
        self.draft.need(path, why)

    def doubt(self, path: str, why: str) -> None:
        """Ask for a field beside the value that it has, which is the likely one and no file says."""
        self.draft.doubted.setdefault(path, MissingField(field=path, why=why, is_required=False))

    def ignore(self, *patterns: str) -> None:
        """Count settings as ones that change no figure here."""
        self._ignored.update(self._named(patterns))

    def not_understood(self, name: str, why: str) -> None:
        """Tell that a setting may matter and is not understood."""
        if name in self._told or name not in self.source.settings:
            return
        self._told.add(name)
        self._read.add(name)
        self.draft.not_understood.append(self._row(self.source.settings[name], None, None, why, shows_value=False))

    def finish(self, ignored: Iterable[str]) -> None:
        """Tell the fate of every setting that has none yet: it does not matter here, or it is not known."""
        without_matter = self._ignored.union(self._named(ignored))
        for name, setting in self.source.settings.items():
            if name in self._told:
                continue
            if name in without_matter:
                self.draft.no_matter.append(self._row(setting, None, None, "", shows_value=False))
            elif setting.value is None and name not in self._read:
                self.draft.no_matter.append(self._row(setting, None, None, "is not set", shows_value=False))
            elif name in self._read:
                self.draft.understood.append(self._row(setting, None, None, "read beside others"))
            else:
                self.not_understood(
                    name, setting.value.why if isinstance(setting.value, Unresolved) else "is not known"
                )

    def _named(self, patterns: Iterable[str]) -> Iterable[str]:
        return (name for pattern in patterns for name in self.source.matching(pattern))

    def _row(
        self, setting: Setting, path: str | None, became: Any, note: str, *, shows_value: bool = True
    ) -> ImportedSetting:
        return ImportedSetting(
            file=self.source.file,
            setting=setting.place.rpartition(": ")[2],
            value=_json(setting.value) if shows_value else None,
            field=path,
            became=_json(became),
            note=note,
        )


def _json(value: Any) -> JsonValue:
    """Return a value as JSON has it; of a document, such as a config.json, only its size, of a path only its end."""
    if isinstance(value, Mapping):
        return f"{len(value)} fields"
    if isinstance(value, list | tuple):
        return [_json(each) for each in value]
    plain = value.end if isinstance(value, Unresolved) else value
    if isinstance(plain, str) and plain.startswith(("/", "~", "./", "../")):
        return plain.rstrip("/").rpartition("/")[2]
    return plain if isinstance(plain, str | int | float | bool | None) else str(plain)


def choice(values: Mapping[str, Any], what: str) -> Callable[[Any], Any]:
    """Return a function that reads one of several names, in any case; it raises ValueError for another.

    >>> choice({"disabled": "sync", "async": "async"}, "mode")("Async")
    'async'
    """
    known = {name.lower(): value for name, value in values.items()}

    def read(value: Any) -> Any:
        if str(value).lower() not in known:
            raise ValueError(f"is no {what} that is known: {', '.join(values)}")
        return known[str(value).lower()]

    return read


def optimizer_of(value: Any) -> str:
    """Return the optimizer of the catalog that a framework means by a name such as AdamW or adamw_torch_fused.

    Raises ValueError for one that the catalog lacks.
    """
    known = optimizer_named(str(value))
    if known is None:
        raise ValueError("is no optimizer of the catalog: give training.optimizer")
    return known


_WITH_ARGUMENT = {
    ("sgd", "momentum"): "sgd-momentum",
    ("adam", "amsgrad"): "adam-amsgrad",
    ("adamw", "amsgrad"): "adam-amsgrad",
}
"""Optimizers that keep more where an argument of torch's class is on: its default is off in all of them."""


def put_optimizer_with(reader: SettingReader, name: str, arguments: str) -> str | None:
    """Set the optimizer by the setting of its name and those of its arguments below a block, and return it."""
    named = reader.get(name)
    try:
        optimizer = None if named is None else optimizer_of(str(named).rpartition(".")[2])
    except ValueError as error:
        reader.not_understood(name, str(error))
        return None
    names = [name]
    for (plain, argument), with_argument in _WITH_ARGUMENT.items():
        value = reader.get(f"{arguments}{argument}", None)
        if optimizer == plain and not isinstance(value, str) and value:
            optimizer = with_argument
            names.append(f"{arguments}{argument}")
    for argument in ("momentum", "centered") if optimizer == "rmsprop" else ():
        if reader.get(f"{arguments}{argument}", None):
            reader.not_understood(f"{arguments}{argument}", "keeps a further buffer of each weight: not counted")
            reader.doubt("training.optimizer", f"{argument} keeps a further buffer of each weight")
    reader.put("training.optimizer", optimizer, *names)
    return optimizer


def contradictions(draft: ScenarioDraft) -> InvalidInput | None:
    """Return the error for what files say differently, or None."""
    return InvalidInput(draft.problems) if draft.problems else None
