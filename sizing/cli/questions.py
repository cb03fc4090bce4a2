"""The verbs that ask a question of the registry: flags in, its answer out as text, JSON, CSV, chart or report."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer
import yaml
from pydantic import JsonValue

from sizing.cli.catalogs import print_catalog
from sizing.cli.flags import FLAG_OF_FIELD, FLAGS, by_names, by_options, flag_words, parse_varied_value
from sizing.cli.report_files import REPORT_HELP, require_report_name, write_report
from sizing.cli.report_text import answer_text
from sizing.cli.scenarios import (
    SCENARIO_PARAMETERS,
    flag_parameters,
    is_config_file,
    lay_out_with_notes,
    naming_given_flags,
    scenario_document,
)
from sizing.cli.verb_parameters import Described, VerbDescription, VerbParameter
from sizing.errors import InvalidInput, NotInstalled
from sizing.offer_tables import TABLE_KINDS, read_offers, write_offers
from sizing.present.catalogs import CATALOGS
from sizing.present.figure_names import FieldSpelling, as_field
from sizing.questions.chunks import Computer, Progress, compute_here, ignore_progress
from sizing.questions.question import (
    CsvTable,
    Option,
    Question,
    RequestFiles,
    ScenarioFlags,
    TerminalStyle,
)
from sizing.questions.registry import QUESTIONS
from sizing.report import find_layout
from sizing.scenario import Scenario
from sizing.spreadsheets import TableWriter
from sizing.terminal.chart_files import require_chart_name, write_chart
from sizing.terminal.files import read_bytes, read_document, tell_apart, write_bytes
from sizing.terminal.output import EXIT_MISSED, WIDE_WITHOUT_TERMINAL, WIDTH_WITHOUT_TERMINAL, console, progress_bar
from sizing.terminal.program import fail

_CATALOG = (
    VerbParameter("word", "text", "Only what has it in its name, or else in its line", metavar="WORD"),
    VerbParameter("scenario", "file", "Try each on a scenario, JSON or YAML", ("--scenario",)),
)
"""Parameters of a verb that lists a catalog where no scenario is given."""

_OFFER_TABLES = (
    VerbParameter("offer_table", "file", "Take the offers from a table: FILE.csv, .tsv or .xlsx", ("--offers",)),
    VerbParameter("write_table", "file", "Write the offers as a table into FILE.csv or .xlsx", ("--write-offers",)),
)
"""Parameters of a verb whose offers may stand in a spreadsheet."""

WORKERS_HELP = "Processes that compute; the answer is the same with any number. Default: this one alone"
DASK_HELP = "Scheduler of Dask whose workers compute, tcp://HOST:PORT or tls://HOST:PORT; the answer is the same"

_MORE = "--full prints {}; --report FILE.pdf or FILE.html has them with charts"
"""What stands below a first screen."""

_FIELD_OF_FLAG = {flag.name.removeprefix("--"): flag.field for flag in FLAGS}


def ask(question: Question[Any, Any], given: dict[str, Any]) -> None:
    """Ask a question by the parameters of its verb, and show the answer."""
    asked_by = question.command_line
    given.pop("example", None)  # answered by its callback
    if isinstance(asked_by, RequestFiles):
        _ask_of_files(question, asked_by, given)
    else:
        with naming_given_flags(given, {_parameter(option): option.field for option in question.options}):
            _ask_of_scenario(question, asked_by, given)


def describe_verb(question: Question[Any, Any]) -> VerbDescription:
    """Describe the verb of a question for its help."""
    asked_by = question.command_line
    own = (*map(_option_parameter, question.options), *_media(question))
    if isinstance(asked_by, RequestFiles):
        is_several = asked_by.join is not None
        argument = VerbParameter(asked_by.argument, "required files" if is_several else "required file", asked_by.help)
        example = VerbParameter(
            "example", "switch", "Print an example of the file, to begin with", ("--example",), prints_example=True
        )
        tables = _OFFER_TABLES if asked_by.offers_in else ()
        parameters = (argument, *([example] if asked_by.has_example else []), *tables, *own)
    else:
        parameters = (*SCENARIO_PARAMETERS, *(_CATALOG if asked_by.catalog else ()), *own)
    by_name = {each.name: each for each in parameters}  # where a name is there twice, the later one takes its place
    more_help = re.sub(r"\{([a-z_.]+)\}", lambda field: FLAG_OF_FIELD[field[1]], question.more_help)
    takes_scenario = isinstance(asked_by, ScenarioFlags)
    first = asked_by.first_fields if isinstance(asked_by, ScenarioFlags) else ()
    first_flags = tuple(flag.parameter for flag in FLAGS if flag.field in first)
    return VerbDescription(more_help, takes_scenario, first_flags, tuple(by_name.values()))


def _parameter(option: Option) -> str:
    return option.name.replace("-", "_")


def _option_parameter(option: Option) -> VerbParameter:
    kind = "switch" if not option.metavar else "texts" if option.repeats else "text"
    flags = tuple(f"--{each}" for each in (option.name, option.former) if each)
    metavar = option.metavar or None
    return VerbParameter(
        _parameter(option),
        kind,
        option.help,
        flags,
        metavar=metavar,
        default=option.default,
        is_further=option.is_further,
    )


def _media(question: Question[Any, Any]) -> Iterator[VerbParameter]:
    """Yield the flags that say how the answer is shown."""
    is_catalog = isinstance(question.command_line, ScenarioFlags) and question.command_line.catalog
    if question.csv_help:
        yield VerbParameter("as_csv", "switch", question.csv_help, ("--csv",))
    if question.has_first_screen:
        yield VerbParameter("full", "switch", "Print all tables, their limits and what was assumed", ("--full",))
        if question.request is Scenario:
            changed = "Config files of before: what changed, side by side"
            yield VerbParameter("against", "files", changed, ("--against",), metavar="FILE...", is_further=True)
    if question.chart or question.draws_first_chart:
        yield VerbParameter("chart", "file", "Draw into FILE.html, .png, .svg or .json", ("--chart",))
    yield VerbParameter("report_file", "file", REPORT_HELP, ("--report",))
    as_json = "Print as JSON, with all that is known" if is_catalog else "Print the report as JSON"
    yield VerbParameter("as_json", "switch", as_json, ("--json",))
    if question.work:
        yield VerbParameter("workers", "number", WORKERS_HELP, ("--workers",), metavar="N", is_further=True)
        yield VerbParameter("dask", "text", DASK_HELP, ("--dask",), metavar="URL", is_further=True)
    if question.check:
        yield VerbParameter(
            "check", "switch", question.check.help, ("--check",), is_further=question.request is Scenario
        )


def example_text(question: Question[Any, Any]) -> str:
    """Write an example of a verb's file, to begin with."""
    text: str = yaml.safe_dump(dict(question.example), sort_keys=False, allow_unicode=True)
    return text


class _OutputFile:
    """How an answer is to be shown, taken out of what was given; names of files are refused before any work."""

    def __init__(self, question: Question[Any, Any], given: dict[str, Any]) -> None:
        self.question = question
        self.as_csv: bool = given.pop("as_csv", False)
        self.full: bool = given.pop("full", False)
        self.chart: Path | None = given.pop("chart", None)
        self.report_file: Path | None = given.pop("report_file")
        self.as_json: bool = given.pop("as_json")
        if self.as_csv and self.as_json:
            raise InvalidInput.of("--csv", "cannot stand beside --json", value=None, remedy="remove one of them")
        self.check: bool = given.pop("check", False)
        self.computer: Computer = compute_here
        workers, dask = given.pop("workers", None), given.pop("dask", None)
        if workers is not None and dask is not None:
            raise InvalidInput.of("--dask", "cannot stand beside --workers", value=dask, remedy="remove one of them")
        if workers is not None:
            from executors.local import LocalWorkers  # noqa: PLC0415 - whose library is an extra

            self.computer = LocalWorkers(workers).compute
        if dask is not None:
            from executors.dask import DaskWorkers  # noqa: PLC0415 - whose library is an extra

            self.computer = DaskWorkers(dask).compute
        require_report_name(self.report_file)
        if self.chart is not None:
            require_chart_name(self.chart)

    @property
    def shows_import(self) -> bool:
        """Whether a table says what config files became, before an answer in words."""
        return not self.as_json and not self.as_csv and self.question.has_first_screen

    def answer(
        self,
        request: Any,
        *,
        words: Callable[[str], str] = str,
        spelling: FieldSpelling = as_field,
        names: set[str] | None = None,
    ) -> None:
        """Ask, and show the answer; `names` are the entries of the catalog that are wanted alone."""
        question = self.question
        if question.ask_of_entries is not None and names is not None:
            request = question.ask_of_entries(request, names)
        with _progress(question) as progress:
            answer = question.answer_request(request, progress, self.computer)
        report = answer.report
        if self.chart is not None:
            write_chart(question.chart(report) if question.chart else answer.document().charts[0], self.chart)
        write_report(answer.document, self.report_file)
        if self.as_json:
            print(report.model_dump_json(indent=2))
        elif self.as_csv and answer.table is not None:
            _write_csv(answer.table())
        else:
            width = WIDE_WITHOUT_TERMINAL if question.is_wide else WIDTH_WITHOUT_TERMINAL
            terminal = TerminalStyle(spelling, self.full, all_rows="--csv or --json prints all")
            summary = answer.terminal_summary(terminal)
            if question.has_first_screen and not self.full:
                summary = summary._replace(notes=(*summary.notes, _MORE.format(question.further_tables)))
            console(width_without_terminal=width).print(answer_text(summary, words))
        if question.refusals is not None and (refused := list(question.refusals(report))):
            fail(refused)
        if self.check and question.check is not None and question.check.is_missed(report):
            raise typer.Exit(EXIT_MISSED)


def _ask_of_scenario(question: Question[Any, Any], asked_by: ScenarioFlags, given: dict[str, Any]) -> None:
    """Ask about the scenario of a file, of flags, or of a file with flags set over it."""
    output = _OutputFile(question, given)
    own = {option.field: value for option in question.options if (value := _value(option, given)) is not None}
    files = {name: given.pop(name) for name in ("storage", "hf_config", "checkpoint", "config_files")}
    path, prints, names = given.pop("scenario"), given.pop("print_scenario"), None
    against = given.pop("against", None)
    if asked_by.catalog:
        catalog = next(each for each in CATALOGS if each.verb == asked_by.catalog)
        word = given.pop("word")
        if word and not path and Path(word).is_file():  # as the other verbs take a scenario
            path, word = Path(word), None
        if not any((path, *files.values(), *given.values())):
            print_catalog(catalog, word, as_json=output.as_json)
            return
        names = {entry.name for entry in catalog.search(word)}
    if path and not files["config_files"] and is_config_file(path):
        path, files["config_files"] = None, (path,)
    flags = given
    if asked_by.varies:
        flags = {
            name: parse_varied_value(value, flag=f"--{name.replace('_', '-')}") if isinstance(value, str) else value
            for name, value in given.items()
            if value is not None
        }
    files["config_files"] = files["config_files"] or ()
    document = scenario_document(path, **files, flags=flags, shows_import=output.shows_import and not prints)
    if against:
        before = scenario_document(None, **(files | {"config_files": against}), flags=flags)
        _compare(before, document, output)
        return
    if prints:
        print(yaml.safe_dump(_with_plain_counts(document), sort_keys=False, allow_unicode=True), end="")
        return
    request = _request_of_scenario(question, asked_by, document, own)
    table = None
    if output.as_csv and output.report_file is None and question.stream is not None:
        table = question.stream(request, output.computer)
    if table is not None:
        _write_csv(table)
    else:
        words = str if asked_by.catalog else flag_words(path, given)  # of a catalog, the words stand for any scenario
        output.answer(request, words=words, spelling=as_flag, names=names)


def _with_plain_counts(document: Any) -> Any:
    """Return a document whose texts of digits alone, as flags are typed, are numbers."""
    if isinstance(document, dict):
        return {name: _with_plain_counts(value) for name, value in document.items()}
    return int(document) if isinstance(document, str) and document.isdecimal() else document


def _compare(before: dict[str, Any], after: dict[str, Any], output: _OutputFile) -> None:
    """Answer both of two scenarios side by side, as `compare` does."""
    output.question = QUESTIONS["compare"].question
    named = [{"name": "before", "scenario": before}, {"name": "after", "scenario": after}]
    output.answer(output.question.parse_request({"scenarios": named}))


def _request_of_scenario(
    question: Question[Any, Any], asked_by: ScenarioFlags, document: dict[str, Any], own: dict[str, Any]
) -> Any:
    if asked_by.layout == "told":
        return find_layout(document)
    if asked_by.may_be_request and "scenario" in document:
        return question.parse_request(document | own)
    scenario = lay_out_with_notes(document) if asked_by.layout == "found" else document
    return scenario if question.request is Scenario else question.parse_request({"scenario": scenario} | own)


def _ask_of_files(question: Question[Any, Any], asked_by: RequestFiles, given: dict[str, Any]) -> None:
    """Ask what stands in files; a scenario within may be the name of a file beside it."""
    output = _OutputFile(question, given)
    paths = given.pop(asked_by.argument)
    table, written = given.pop("offer_table", None), given.pop("write_table", None)
    if written is not None and written.suffix.lower().lstrip(".") not in TABLE_KINDS:
        rule = f"must end in {' or '.join(f'.{kind}' for kind in TABLE_KINDS)}"
        raise InvalidInput.of("--write-offers", rule, value=written.name, remedy="rename it")
    if asked_by.join is not None:
        names = tell_apart(paths) if len(paths) > 1 else [paths[0].name]
        document = asked_by.join(list(zip(names, map(read_document, paths), strict=True)))
    else:
        document = _with_scenario_files(read_document(paths), beside=paths, within=asked_by.scenarios_in)
    if table is not None:
        document[asked_by.offers_in] = read_offers(read_bytes(table))
    if written is not None:
        offers = question.parse_request(document).model_dump(mode="json", exclude_unset=True)[asked_by.offers_in]
        write_bytes(written, write_offers(offers, written.suffix.lower().lstrip(".")), option="--write-offers")
    for option in question.options:
        value = _value(option, given)
        if value is not None:
            document = _with_field(document, option.field, value)
    try:
        request = question.parse_request(document)
    except InvalidInput as error:
        raise by_names(error, document) from None
    try:
        output.answer(request)
    except NotInstalled:
        raise
    except InvalidInput as error:
        raise by_options(error, {option.field: f"--{option.name}" for option in question.options}) from None


def _value(option: Option, given: dict[str, Any]) -> Any:
    """Take the value of the field that an option sets out of what was given; None where it is not set."""
    typed = given.pop(_parameter(option))
    if not option.metavar:
        return option.value if typed else None
    if not typed:
        return None
    value = option.read(typed) if option.read else typed
    if not option.has_fields:
        return value
    return {_FIELD_OF_FLAG.get(name.removeprefix("--"), name): each for name, each in value.items()}


def _with_field(document: dict[str, Any], field: str, value: Any) -> dict[str, Any]:
    """Set a field of a document, by dotted path; leave the document as it is where a block of the path is no block."""
    name, _, rest = field.partition(".")
    if not rest:
        return document | {name: value}
    block = document.get(name) or {}
    return document | {name: _with_field(block, rest, value)} if isinstance(block, dict) else document


def _with_scenario_files(document: dict[str, Any], *, beside: Path, within: str) -> dict[str, Any]:
    """Replace each scenario of a list that is the name of a file by what the file holds, without its storage."""
    entries = document.get(within)
    if not isinstance(entries, list):
        return document
    jobs = list(entries)
    for place, job in enumerate(entries):
        if isinstance(job, dict) and isinstance(job.get("scenario"), str):
            scenario = read_document(beside.parent / job["scenario"])
            jobs[place] = job | {"scenario": {name: block for name, block in scenario.items() if name != "storage"}}
    return document | {within: jobs}


@contextlib.contextmanager
def _progress(question: Question[Any, Any]) -> Iterator[Progress]:
    if not question.working:
        yield ignore_progress
        return
    with progress_bar(question.working) as progress:
        yield progress


def _write_csv(table: CsvTable) -> None:
    """Print a table as CSV while its rows come; on standard error, which rows have no answer."""
    writer = TableWriter(sys.stdout)
    writer.row(table.columns)
    writer.rows(table.rows)
    for sentence in table.omissions():
        print(sentence, file=sys.stderr)


def as_flag(path: str, value: JsonValue) -> str:
    """Write a field and its value as they are typed, or as a file has them where no flag sets the field.

    Nodes that are not of the catalog have no text, and stand as a file has them within their block. A field that must
    be left out is named.

    >>> as_flag("training.optimizer", "adam-8bit"), as_flag("training.sequence_parallel", False)
    ('--optimizer adam-8bit', 'training.sequence_parallel: false')
    >>> as_flag("parallelism.layers_per_stage", [14, 6]), as_flag("cluster.nodes", [{"count": 4, "node": "dgx-h100"}])
    ('--layers-per-stage 14,6', '--nodes 4xdgx-h100')
    >>> as_flag("cluster.nodes", [{"count": 4, "node_spec": {"gpus_per_node": 8}}])
    'cluster: {"nodes": [{"count": 4, "node_spec": {"gpus_per_node": 8}}]}'
    >>> as_flag("parallelism.first_stage_layers", None)
    'without parallelism.first_stage_layers'
    """
    if value is None:
        return f"without {path}"
    flag = FLAG_OF_FIELD.get(path)
    if flag is None:
        return as_field(path, value)
    entries = [_text_of_entry(each) for each in value] if isinstance(value, list) else [_text_of_entry(value)]
    if any(each is None for each in entries):
        block, _, name = path.rpartition(".")
        return f"{block}: {json.dumps({name: value})}"
    return f"{flag} {shlex.quote(','.join(each for each in entries if each is not None))}"


def _text_of_entry(value: JsonValue) -> str | None:
    """Write a value, or an entry of a list, as a flag takes it; None for a block that no text stands for."""
    if not isinstance(value, dict):
        return value if isinstance(value, str) else json.dumps(value)
    return f"{value['count']}x{value['node']}" if value.keys() == {"count", "node"} else None


def describe_verbs() -> Described:
    """Describe the verbs of all questions, for their help."""
    return Described(flag_parameters(), {name: describe_verb(entry.question) for name, entry in QUESTIONS.items()})


if __name__ == "__main__":
    print(describe_verbs().as_json())
