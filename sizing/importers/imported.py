"""Config files as one scenario: which importer reads each, what became of every setting, and what is still needed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import Field

from sizing.config_files.interpolation import resolve_interpolations
from sizing.config_files.reader import (
    BESIDE_FILES,
    ImportedSetting,
    MissingField,
    ScenarioDraft,
    SettingReader,
    contradictions,
)
from sizing.config_files.script import SCRIPT_ENDINGS, is_script, script_sources
from sizing.config_files.source import ConfigSource, ConfigText, document_source, parse_settings
from sizing.errors import InvalidInput, Problem, shown
from sizing.field_paths import with_fields
from sizing.importers.importer import Importer, trains_nothing
from sizing.importers.launch_command import LAUNCH_COMMAND
from sizing.importers.registry import IMPORTERS, importer_of, importer_started_by, unread_trainer
from sizing.importers.request import ImportRequest
from sizing.importers.scenario import SCENARIO
from sizing.importers.trainer_settings import BESIDE_A_TRAINER
from sizing.scenario import INTERVAL, NUM_GPUS, scenario_from
from sizing.state.training import OF_A_STEP
from sizing.strict_model import StrictModel


class ReadFile(StrictModel):
    """A file that was read, and as what."""

    name: str = Field(description="File, as it was named in the request.")
    read_as: str = Field(description="Framework or trainer whose config file it is.")
    version: str = Field(description="Version in which names of settings and defaults were read.")


class ImportReport(StrictModel):
    """A scenario made of config files, and what became of each of their settings."""

    files: list[ReadFile] = Field(description="Each file and what it was read as.")
    scenario: dict[str, Any] = Field(description="The scenario; an answer may need more, see needed.")
    understood: list[ImportedSetting] = Field(description="Settings that became fields of the scenario.")
    defaults: list[ImportedSetting] = Field(
        description="Defaults of the frameworks that hold for what the files leave out."
    )
    not_understood: list[ImportedSetting] = Field(
        description="Settings that may matter and did not become a field, with the reason; their values are left out."
    )
    no_matter: list[ImportedSetting] = Field(
        description="Settings that change no figure here; their values are left out."
    )
    needed: list[MissingField] = Field(description="Fields that the files do not give and an answer needs.")


_AXES = ("tensor", "pipeline", "context", "data")


@dataclass(frozen=True)
class _Recognised:
    """A source and its importer; `naming`: settings that name a file which is read beside it."""

    importer: Importer
    source: ConfigSource
    naming: tuple[str, ...] = ()


def import_config_files(request: ImportRequest) -> ImportReport:
    """Read config files as one scenario.

    Raises InvalidInput where a file is none that is known, files contradict each other or a setting has a value that no
    scenario can have.
    """
    listed = [(file, *_list_sources(file)) for file in request.files]
    documents = _importers_of_documents(listed)
    trainings = _list_trainings([each for row in listed for each in _recognise(*row, documents)])
    read = [(each, _read_all(each, request)) for each in trainings]
    recognised, draft = min(read, key=lambda each: each[1].value(NUM_GPUS) is None)
    for other, draft_of_other in read:
        if (error := contradictions(draft_of_other)) is not None:
            raise error
        _compare(recognised, draft, other, draft_of_other)
    _leave_out_steps_of_unknown_size(draft)
    document = with_fields({}, {path: given.value for path, given in draft.fields.items()})
    _check(document, draft)
    _find_needed(draft, beside=request.given)
    return ImportReport(
        files=[
            ReadFile(name=each.source.file, read_as=each.importer.title, version=each.importer.version)
            for each in recognised
        ],
        scenario=document,
        understood=draft.understood,
        defaults=[each for each in draft.defaults if _holds(each, draft)],
        not_understood=draft.not_understood,
        no_matter=draft.no_matter,
        needed=list(draft.needed.values()),
    )


def _list_trainings(recognised: Sequence[_Recognised]) -> list[list[_Recognised]]:
    """List the trainings that files describe: several where one importer reads several commands of a script."""
    groups: dict[tuple[str, str], list[_Recognised]] = {}
    for n, each in enumerate(recognised):
        is_command = each.source.document is None and each.importer.frameworks
        groups.setdefault((each.source.file, each.importer.name if is_command else str(n)), []).append(each)
    num_trainings = max(map(len, groups.values()))
    return [[group[min(n, len(group) - 1)] for group in groups.values()] for n in range(num_trainings)]


def _read_all(recognised: Sequence[_Recognised], request: ImportRequest) -> ScenarioDraft:
    """Read the sources of one training as a draft of its scenario."""
    draft = ScenarioDraft()
    if request.num_gpus is not None:
        draft.set(NUM_GPUS, request.num_gpus, place=BESIDE_FILES, is_default=False)
    merged = _merge_commands(recognised)
    readers = [(each, _reader(each, draft, merged)) for each in merged]
    for _, reader in readers:
        reader.put_gpus()
    for each, reader in sorted(readers, key=lambda pair: pair[0].importer.rank):
        importer = each.importer
        try:
            importer.read(reader)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            # Only a value of another kind than the framework itself takes, a list for a number, comes to this.
            rule = f"has a setting whose value is of a kind that {importer.title} does not take"
            remedy = "correct it: a number where a number is meant, a text where a text is"
            raise InvalidInput.of(reader.source.file, rule, value=None, remedy=remedy) from None
        reader.finish((*importer.ignored, *each.naming))
    return draft


_OPEN_WITHOUT_LAUNCHER = {NUM_GPUS, "parallelism.data", "training.global_batch_size"}
"""Fields that a command may leave open which starts the same training without a launcher."""


def _compare(
    first: list[_Recognised], draft: ScenarioDraft, other: list[_Recognised], draft_of_other: ScenarioDraft
) -> None:
    """Refuse two trainings of a script that differ, and note in the first draft what is not understood of the other."""
    for path in {**draft.fields, **draft_of_other.fields}:
        values = [each.value(path) for each in (draft, draft_of_other)]
        if values[0] == values[1] or (None in values and path in _OPEN_WITHOUT_LAUNCHER):
            continue
        commands = next((one.source, two.source) for one, two in zip(first, other, strict=True) if one is not two)
        places = [[*command.settings.values()][-1].place.rpartition(": ")[0] for command in commands]
        said = [
            f"{'not given' if value is None else shown(value)} in {place}"
            for value, place in zip(values, places, strict=True)
        ]
        rule = f"starts several trainings that differ: {path} is {' and '.join(said)}"
        raise InvalidInput.of(commands[0].file, rule, value=None, remedy="give a script of the one that is meant")
    draft.not_understood += [row for row in draft_of_other.not_understood if row not in draft.not_understood]


def _reader(each: _Recognised, draft: ScenarioDraft, all_read: Sequence[_Recognised]) -> SettingReader:
    others = [(other.importer.name, other.source) for other in all_read if other is not each]
    return SettingReader(each.source, draft, title=each.importer.title, defaults=each.importer.defaults, others=others)


def _list_sources(file: ConfigText) -> tuple[list[ConfigSource], bool]:
    """List the sources of a file, and tell whether it is a script: by its text, or by its name if it is no document."""
    if file.name.endswith(".py"):
        remedy = "give its launch script, or the YAML, TOML or JSON in which the run wrote its settings"
        raise InvalidInput.of(file.name, "is a Python program, which is not read", value=None, remedy=remedy)
    if not file.content.strip():
        remedy = "give the file as the training reads or writes it"
        raise InvalidInput.of(file.name, "is empty", value=None, remedy=remedy)
    if is_script(file.content):
        return script_sources(file), True
    try:
        return [_with_interpolations(document_source(file.name, parse_settings(file.content)))], False
    except ValueError as error:
        if file.name.endswith(SCRIPT_ENDINGS):
            return script_sources(file), True
        rule = f"is no config file that can be read ({error})"
        remedy = "give TOML, YAML, JSON or a launch script"
        raise InvalidInput.of(file.name, rule, value=None, remedy=remedy) from None


_CONFIG_ENDINGS = (".yaml", ".yml", ".json", ".toml")


def _files_named_by(source: ConfigSource) -> dict[str, str]:
    """Return the files that a command names, without their folders, and the setting that names each, or no text."""
    named = {word.rpartition("/")[2]: "" for word in source.words[1:]}
    for name, setting in source.settings.items():
        if isinstance(setting.value, str) and not name.startswith("launcher."):
            file = setting.value.rpartition("/")[2]
            without_ending = "config" in name and not file.endswith(_CONFIG_ENDINGS)
            named |= {f"{file}{end}": name for end in (_CONFIG_ENDINGS if without_ending else ("",))}
    return named


def _importers_of_documents(
    listed: Iterable[tuple[ConfigText, Sequence[ConfigSource], bool]],
) -> dict[str, Importer | None]:
    """Return the importer of each document by its name without folders; a program that names it settles which."""
    rows = [(file.name.rpartition("/")[2], sources, is_command) for file, sources, is_command in listed]
    found = {name: importer_of(sources[0]) for name, sources, is_command in rows if not is_command}
    for command in (source for _, sources, is_command in rows if is_command for source in sources):
        started = importer_started_by(command)
        for name in found.keys() & _files_named_by(command).keys() if started else ():
            of_marks = found[name]
            found[name] = of_marks if of_marks is not None and of_marks.name in BESIDE_A_TRAINER else started
    return found


def _recognise_command(source: ConfigSource, documents: Mapping[str, Importer | None]) -> _Recognised | None:
    """Find what a command is: what the trainer's own file is that it names, else by its program and marks.

    Raises InvalidInput where the command says little more than a file that is not given.
    """
    importer, named = importer_of(source), _files_named_by(source)
    for file, setting in named.items() if not trains_nothing(source) else ():
        of_file = documents.get(file)
        if of_file is not None and of_file.name not in BESIDE_A_TRAINER:
            return _Recognised(of_file, of_file.rename(source), (setting,) if setting else ())
    lacking = next((file for file in named if file.endswith(_CONFIG_ENDINGS)), None)
    if importer is None:
        return None
    num_marks = sum(bool(source.matching(mark)) for mark in importer.marks)
    if lacking is not None and importer.is_started_by(source) and num_marks < importer.min_marks:
        place = f"{source.file}: {' '.join(source.words[:2])}"
        raise InvalidInput.of(place, "names a file that is not given", value=lacking, remedy="give that file too")
    return _Recognised(importer, importer.rename(source))


def _recognise(
    file: ConfigText, sources: Sequence[ConfigSource], is_command: bool, documents: Mapping[str, Importer | None]
) -> list[_Recognised]:
    """Find what a file is. Commands of a script that no importer knows are left out, if another is known."""
    for unread in filter(None, map(unread_trainer, sources)):
        remedy = (
            "give model.preset, training.framework, cluster.num_gpus and checkpoint.interval_seconds in place of it"
        )
        raise InvalidInput.of(file.name, f"is of {unread}, which is not read", value=None, remedy=remedy)
    found = []
    for source in sources:
        if is_command and source.document is None:
            each = _recognise_command(source, documents)
        else:
            importer = importer_of(source) if is_command else documents.get(file.name.rpartition("/")[2])
            each = None if importer is None else _Recognised(importer, importer.rename(source))
        found += [] if each is None else [each]
    if any(each.importer.frameworks and each.source.document is None for each in found):
        found = [each for each in found if each.importer is not LAUNCH_COMMAND]  # those start other programs
    if not found:
        known = ", ".join(each.title for each in IMPORTERS.values())
        what = "starts no training that is known" if is_command else "has the settings of no training that is known"
        raise InvalidInput.of(file.name, what, value=None, remedy=f"give a file of {known}")
    return found


def is_config_of_training(file: ConfigText) -> bool:
    """Tell whether a file is the config of a training that is known, and no scenario of this program."""
    try:
        listed = (file, *_list_sources(file))
        return any(each.importer is not SCENARIO for each in _recognise(*listed, _importers_of_documents([listed])))
    except InvalidInput:
        return False


def _with_interpolations(source: ConfigSource) -> ConfigSource:
    """Put values into the interpolations of a document."""
    values = resolve_interpolations({name: setting.value for name, setting in source.settings.items()})
    settings = {name: replace(setting, value=values[name]) for name, setting in source.settings.items()}
    return replace(source, settings=settings)


def _merge_commands(recognised: Iterable[_Recognised]) -> list[_Recognised]:
    """Let the settings of a command stand over those of documents that the same importer reads.

    A setting takes the place of the whole block of its name, as in hydra; one that no document has joins the first.
    """
    merged = [each for each in recognised if each.source.document is not None]
    num_documents = len(merged)
    for each in recognised:
        if each.source.document is not None:
            continue
        of_same = [n for n in range(num_documents) if merged[n].importer is each.importer]
        if not of_same:
            merged.append(each)
            continue
        for n in of_same:
            below = merged[n].source
            over = {
                name: setting
                for name, setting in each.source.settings.items()
                if n == of_same[0] or name in below.settings
            }
            kept = {
                name: setting
                for name, setting in below.settings.items()
                if not any(name.startswith(f"{other}.") for other in each.source.settings)
            }
            source = replace(below, settings={**kept, **over}, words=each.source.words)
            merged[n] = _Recognised(each.importer, source, each.naming)
    return merged


def _leave_out_steps_of_unknown_size(draft: ScenarioDraft) -> None:
    """Leave out fields that describe a step where the size of its microbatch is not known: no scenario has them so."""
    if draft.value("training.micro_batch_size") and draft.value("training.sequence_length"):
        return
    names = ("micro_batch_size", "sequence_length", *OF_A_STEP, "recomputed_layers", "recompute_modules")
    for name in names:
        for path in [path for path in draft.fields if f"{path}.".startswith(f"training.{name}.")]:
            draft.leave_out(path, "counts with training.micro_batch_size and training.sequence_length")


def _find_needed(draft: ScenarioDraft, *, beside: Collection[str]) -> None:
    """Note what an answer needs that the files do not give, nor what is given `beside` them."""
    given = {*draft.fields, *beside}
    if any(path.partition(".")[0] == "model" for path in beside):
        draft.needed = {path: need for path, need in draft.needed.items() if not path.startswith("model.")}
    elif not any(path.startswith("model.") for path in draft.fields):
        draft.need("model.preset", "the files name no model whose shape is known")
    if NUM_GPUS not in given and not {f"parallelism.{axis}" for axis in _AXES} <= set(given):
        draft.need(NUM_GPUS, "the files do not say on how many GPUs they run")
    if not any(path.partition(".")[0] == "storage" for path in given):
        draft.need("storage.preset", "times need the rates of the storage")
    if "checkpoint.interval_steps" in given and not {"training.step_seconds", INTERVAL} & set(given):
        draft.need("training.step_seconds", "the interval is in steps, whose time is computed where it is not measured")
    draft.needed = {path: need for path, need in draft.needed.items() if path not in given}
    draft.needed |= {path: need for path, need in draft.doubted.items() if path not in beside}


def _holds(default: ImportedSetting, draft: ScenarioDraft) -> bool:
    """Whether a framework's default was not overruled by a setting of another file."""
    given = draft.fields.get(default.field or "")
    return given is not None and given.is_default and given.value == default.became


def _check(document: dict[str, Any], draft: ScenarioDraft) -> None:
    """Refuse a value that no field can have, by the name of its setting. What is asked for may be missing."""
    try:
        scenario_from(document if "model" in document else {**document, "model": {"num_parameters": 1}})
    except InvalidInput as error:
        open_fields = {*draft.needed, *([] if "parallelism.data" in draft.fields else ["parallelism"])}
        problems = [each for each in error.problems if each.field not in open_fields]
        if problems:
            raise InvalidInput(_at_setting(each, draft) for each in problems) from None


def _at_setting(problem: Problem, draft: ScenarioDraft) -> Problem:
    given = draft.fields.get(problem.field)
    return problem if given is None else replace(problem, field=f"{given.place} ({problem.field})")
