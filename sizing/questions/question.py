"""A question as an object: all that a front end needs to ask it and to show its answer, in every medium.

A question whose answer is a report in words and charts gives `answer`, or `work` where other processes may do it, with
`summary` and `charts`. One with more than that, such as a document that needs what the report does not hold, gives
`ask`, which does the whole of it.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, JsonValue

from sizing.errors import InvalidInput
from sizing.present.chart import Spec
from sizing.present.document import Briefing, Document, titled_document
from sizing.present.figure_names import FieldSpelling, as_field
from sizing.present.rows import Summary
from sizing.printed_numbers import validate_as_printed
from sizing.questions.chunks import ChunkedWork, Computer, Progress, compute_here, ignore_progress
from sizing.scenario import Scenario

RequestT = TypeVar("RequestT", bound=BaseModel)
ReportT = TypeVar("ReportT", bound=BaseModel)


class CsvTable(NamedTuple):
    """The columns and rows that an answer has as CSV."""

    columns: Sequence[str]
    rows: Iterable[Sequence[Any]]
    omissions: Callable[[], Iterable[str]] = tuple
    """Sentences about rows that have no answer, once all rows are read."""


ALL_ROWS = "the answer as CSV or JSON has all"


class TerminalStyle(NamedTuple):
    """How a terminal writes the fields of an answer, and how much of it."""

    spelling: FieldSpelling = as_field
    is_full: bool = False
    """Whether all tables are wanted, of an answer whose first screen stands alone."""
    all_rows: str = ALL_ROWS
    """Where all rows are, of an answer that shows the first of them."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[ReportT]):
    """The answer to a question: its report, and what makes words, a document and a table of that."""

    report: ReportT
    document: Callable[[], Document]
    terminal_summary: Callable[[TerminalStyle], Summary]
    table: Callable[[], CsvTable] | None = None
    """None where CSV lists the figures of the report."""


class Option(NamedTuple):
    """An option of a question's own, and the field of the request that it sets, by dotted path.

    One without a `metavar` is a switch: it takes no value and sets `value`.
    """

    name: str
    field: str
    help: str
    metavar: str = ""
    value: JsonValue = True
    default: str | None = None
    repeats: bool = False
    read: Callable[[Any], Any] | None = None
    """Makes the field of what was typed; None where the text is the field."""
    has_fields: bool = False
    """Whether it reads into a mapping whose keys are fields of a scenario, which may be typed as their flags."""
    former: str = ""
    """What the option was called before."""
    is_further: bool = False
    """Whether help leaves it out until all is asked for."""


def split_at_commas(text: str) -> list[str]:
    """Split a text into the texts between its commas.

    >>> split_at_commas("1,2,4")
    ['1', '2', '4']
    """
    return text.split(",")


SIZE_FIELDS = (
    "model.preset",
    "model.num_parameters",
    "parallelism.tensor",
    "parallelism.pipeline",
    "cluster.node",
    "cluster.num_gpus",
)
"""What the size of a checkpoint depends on most; each group here is one that the help of several verbs shows first."""
STEP_FIELDS = ("training.sequence_length", "training.micro_batch_size", "training.global_batch_size")
SAVE_FIELDS = ("checkpoint.mode", "checkpoint.interval_seconds")
RATE_FIELDS = ("storage.profile.write_bytes_per_second", "storage.profile.read_bytes_per_second")
FIRST_FIELDS = (
    *SIZE_FIELDS,
    *SAVE_FIELDS,
    *RATE_FIELDS,
    "training.framework",
    "training.global_batch_size",
    "storage.preset",
    "reliability.mtbf_seconds",
)
"""Fields that most answers depend on most."""


class ScenarioFlags(NamedTuple):
    """A question that the command line asks with a scenario: a file, flags, or both."""

    layout: Literal["open", "found", "told"] = "open"
    """Whether degrees that are left open are found before the question is asked. `found` prints as notes what that
    assumed; the report of a question with `told` says so itself, and is asked with the `ScenarioWithLayout`."""
    may_be_request: bool = False
    """Whether the file may hold the whole request, in which the scenario is a field."""
    varies: bool = False
    """Whether a flag may hold a list or a range."""
    catalog: str = ""
    """Name of a catalog that the verb lists where no scenario is given."""
    first_fields: tuple[str, ...] = FIRST_FIELDS
    """Fields whose flags help shows first; `--help-all` has those of all others."""


class RequestFiles(NamedTuple):
    """A question that the command line asks with a file of its own, or several."""

    argument: str
    help: str
    scenarios_in: str = ""
    """List of blocks in which a `scenario` may be the name of a file beside this one."""
    has_example: bool = False
    """Whether `--example` prints a file to begin with."""
    offers_in: str = ""
    """List of offers that may come from a table of a spreadsheet, and be written as one."""
    join: Callable[[Sequence[tuple[str, dict[str, Any]]]], dict[str, Any]] | None = None
    """Makes the request of several files, given by names that tell them apart and their documents; None where one
    file is all."""


class Check(NamedTuple):
    """The condition under which `--check` exits with 1, and the help that says so."""

    help: str
    is_missed: Callable[[Any], bool]


class RestRoute(NamedTuple):
    """How REST asks: `POST /v1/<path>`."""

    path: str
    name: str
    """Operation id, which generated clients make a function's name of."""
    summary: str
    description: str
    example: str
    """Line above the example of a request."""
    tag: str = "what if"
    csv: str = ""
    """What the answer holds as CSV, such as `the rows`; empty where there is no CSV."""
    is_quick: bool = False
    """Whether most answers take milliseconds, so that they are computed beside the server's event loop.

    For a question whose request is a Scenario, as layouts are kept for the next one.
    """

    @property
    def full_description(self) -> str:
        """The description, and below it a sentence on the forms of the answer."""
        forms = f", as PDF, or {self.csv} as CSV," if self.csv else " or as PDF,"
        return f"{self.description}\n\nAs JSON, as a page to read (HTML){forms} by `Accept`."


@dataclass(frozen=True, kw_only=True)
class Question(Generic[RequestT, ReportT]):
    """What can be asked, how each front end asks it, and what it shows of the answer."""

    title: str
    """Line above the title of a document: what sort of answer it is."""
    request: type[RequestT]
    report: type[ReportT]
    example: Mapping[str, Any]
    quick_example: Mapping[str, Any] | None = None
    """A request whose answer is the example of a report; None where that is `example`."""
    route: RestRoute

    answer: Callable[[RequestT, Progress], ReportT] | None = None
    work: Callable[[RequestT], ChunkedWork[Any, ReportT]] | None = None
    """Makes the chunks of a heavy question, in place of `answer`: a function of a module, as other processes call it.

    Raises InvalidInput where the request has none."""
    summary: Callable[[ReportT], Summary] | None = None
    charts: Callable[[ReportT], Sequence[Spec]] | None = None
    briefing: Callable[[ReportT], Briefing] | None = None
    """Makes the page that a document begins with, for those who decide and do not size."""
    ask: Callable[[Any, Progress], Answer[ReportT]] | None = None
    show: Callable[[RequestT, ReportT], Answer[ReportT]] | None = None
    """Makes words and a document of a report that needs its request for them."""
    terminal_summary: Callable[[ReportT, TerminalStyle], Summary] | None = None
    """What a terminal shows in place of the summary."""
    table: Callable[[ReportT], CsvTable] | None = None

    command_line: ScenarioFlags | RequestFiles
    """How the command line asks."""
    options: tuple[Option, ...] = ()
    more_help: str = ""
    """Paragraph below the line that the registry has of the verb. {a.field} stands for its flag."""
    further_tables: str = ""
    """What stands in the tables that a terminal shows with `--full` alone; empty where it shows the whole answer."""
    stream: Callable[[RequestT, Computer], CsvTable | None] | None = None
    """Makes all rows as CSV, one after the other, of more than a report holds; None for a request whose rows are only
    known when all is done."""
    csv_help: str = ""
    """What `--csv` prints; empty where the command line has none."""
    chart: Callable[[ReportT], Spec] | None = None
    """What `--chart` draws."""
    draws_first_chart: bool = False
    """Whether `--chart` draws the first chart of the document, as a chart needs more than the report."""
    check: Check | None = None
    working: str = ""
    """What the command line says beside the bar of progress; empty for what takes no time."""
    is_wide: bool = False
    """Whether tables have a column for each figure."""
    ask_of_entries: Callable[[RequestT, Collection[str]], RequestT] | None = None
    """Asks the request about some entries of the catalog alone."""
    refusals: Callable[[ReportT], Iterable[str]] | None = None
    """Sentences about parts of the request that break rules; the command line exits with 2 for them."""

    may_name_calibrations: tuple[str, ...] = ("scenario.storage.calibration",)
    """Fields of the request that may hold the id of a stored calibration, by dotted path; `*` stands for each of a
    list."""
    needs_answer: Callable[[RequestT], Scenario] | None = None
    """The scenario without whose answer the question has none, so that it is refused before it becomes a job."""
    refuse: Callable[[RequestT], None] | None = None
    """Raises InvalidInput where the question has no answer, without the work of it; where the question also
    `needs_answer`, it is called for a scenario whose answer is quick."""
    draggable: Callable[[RequestT], Scenario | None] | None = None
    """The scenario whose inputs may be dragged beside the answer; None where the question is about several."""
    first_example: Mapping[str, Any] | None = None
    """A request to begin with, where `example` holds more than that."""
    schema_name: str = ""
    """Name of the JSON Schema of the request, where the service shows it alone."""

    def __post_init__(self) -> None:
        if self.route.is_quick and self.request is not Scenario:
            raise TypeError(f"{self.title}: a route that is_quick takes a Scenario, not {self.request.__name__}")

    @property
    def has_first_screen(self) -> bool:
        """Whether a terminal shows a first screen alone, and all tables with `--full`."""
        return self.further_tables != ""

    def parse_request(self, document: object) -> RequestT:
        """Parse a document as a request. Raises InvalidInput with one problem for each field that breaks a rule."""
        return validate_as_printed(self.request, document)

    def answer_request(
        self, request: RequestT, progress: Progress = ignore_progress, computer: Computer = compute_here
    ) -> Answer[ReportT]:
        """Answer a request; `computer` computes its chunks. Raises InvalidInput where it has no answer."""
        with self.naming_fields():
            if self.ask is not None:
                return self.ask(request, progress)
            if self.work is not None:
                make = functools.partial(self.work, request)
                work = make()
                return self.present(request, work.merge(computer(work, make, progress)))
            if self.answer is None:
                raise TypeError(f"the question {self.title} has neither `answer` nor `work` nor `ask`")
            return self.present(request, self.answer(request, progress))

    @contextlib.contextmanager
    def naming_fields(self) -> Iterator[None]:
        """Let refusals of a request's scenario, within the block, name fields by their paths in the request."""
        try:
            yield
        except InvalidInput as error:
            own = self.request.model_fields
            if "scenario" not in own:
                raise
            blocks = Scenario.model_fields.keys() - own.keys()
            raise type(error)(
                replace(each, field=f"scenario.{each.field}") if re.split(r"\W", each.field)[0] in blocks else each
                for each in error.problems
            ) from None

    def present(self, request: RequestT, report: ReportT) -> Answer[ReportT]:
        """Present the report that answers a request: its words, its document and its table."""
        if self.show is not None:
            return self.show(request, report)
        words, charts, at_terminal, table = self.summary, self.charts, self.terminal_summary, self.table
        briefing = self.briefing
        if words is None:
            raise TypeError(f"the question {self.title} has no `summary`")
        return Answer(
            report,
            lambda: titled_document(
                self.title,
                words(report),
                *(charts(report) if charts else ()),
                briefing=briefing(report) if briefing else None,
            ),
            lambda style: at_terminal(report, style) if at_terminal else words(report),
            (lambda: table(report)) if table else None,
        )
