"""Every question that there is: the one list that command line, service and client walk over.

A question is a folder beside this module, whose `question.py` has a `QUESTION`, and an entry here. The folder is
imported when its question is asked: an entry alone tells what help and routes begin with.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from pydantic import BaseModel

if TYPE_CHECKING:
    from sizing.questions.cluster.report import ClusterReport
    from sizing.questions.cluster.request import ClusterScenario
    from sizing.questions.compare.report import ComparisonReport
    from sizing.questions.compare.request import ComparisonRequest
    from sizing.questions.decide.report import DecisionReport
    from sizing.questions.decide.request import DecisionRequest
    from sizing.questions.layouts.report import LayoutsReport
    from sizing.questions.layouts.request import LayoutsRequest
    from sizing.questions.manifest.report import ManifestReport
    from sizing.questions.manifest.request import ManifestRequest
    from sizing.questions.question import Question
    from sizing.questions.rematerialize.report import RematerializationReport
    from sizing.questions.rematerialize.request import RematerializationRequest
    from sizing.questions.require.report import RequirementsReport
    from sizing.questions.sensitivity.request import SensitivityReport, SensitivityRequest
    from sizing.questions.simulate.request import ScenarioSimulation
    from sizing.questions.stages.report import StagesReport
    from sizing.questions.stages.request import StagesRequest
    from sizing.questions.sweep.report import SweepReport
    from sizing.questions.sweep.request import SweepRequest
    from sizing.questions.techniques.report import TechniquesReport
    from sizing.questions.techniques.request import TechniquesRequest
    from sizing.report import SizingReport
    from sizing.run.simulation import SimulationReport
    from sizing.scenario import Scenario

Panel = Literal["Size", "Decide", "Explore", "Inspect", "Catalogs"]
"""Groups of verbs in the help of the command line: what most people ask comes first."""

_RequestT = TypeVar("_RequestT", bound=BaseModel)
_ReportT = TypeVar("_ReportT", bound=BaseModel)


class QuestionEntry(NamedTuple, Generic[_RequestT, _ReportT]):
    """A question in the registry. Processes may send it to each other."""

    name: str
    """Verb of the command line, and folder."""
    help: str
    """What the verb does, in a line."""
    module: str = ""
    """Where its `QUESTION` is; empty for `sizing.questions.<name>.question`."""
    panel: Panel = "Explore"
    """Where help lists the verb."""

    @property
    def question(self) -> Question[_RequestT, _ReportT]:
        """The question, imported when this is first read."""
        module = importlib.import_module(self.module or f"{__package__}.{self.name}.question")
        question: Question[_RequestT, _ReportT] = module.QUESTION
        return question

    def answer(self, document: object) -> _ReportT:
        """Answer a parsed document: a request, or a scenario alone where a request has one.

        Raises InvalidInput where a field breaks a rule, or the request has no answer.
        """
        question = self.question
        has_scenario = "scenario" in question.request.model_fields
        if has_scenario and isinstance(document, Mapping) and "scenario" not in document:
            document = {"scenario": document}
        return question.answer_request(question.parse_request(document)).report


ANSWER: QuestionEntry[Scenario, SizingReport] = QuestionEntry(
    "answer",
    "Answer a scenario from a JSON or YAML file, from flags, or from a file with flags set over it.",
    panel="Size",
)
MANIFEST: QuestionEntry[ManifestRequest, ManifestReport] = QuestionEntry(
    "manifest",
    "List the files of a checkpoint by class of ranks, or each of them as CSV.",
    panel="Size",
)
REQUIRE: QuestionEntry[Scenario, RequirementsReport] = QuestionEntry(
    "require",
    "Solve for the min bandwidth and capacity, and the min and max interval, that meet a scenario's targets.",
    panel="Size",
)
SWEEP: QuestionEntry[SweepRequest, SweepReport] = QuestionEntry(
    "sweep", "Answer every combination of the lists and ranges of a scenario, and find the Pareto front."
)
SIMULATE: QuestionEntry[ScenarioSimulation, SimulationReport] = QuestionEntry(
    "simulate",
    "Simulate the run with random failures: goodput (ETTR), its spread over runs, and the goodput by formula.",
)
SENSITIVITY: QuestionEntry[SensitivityRequest, SensitivityReport] = QuestionEntry(
    "sensitivity", "Vary each given input alone, and show how far the headline figure moves, the largest swing first."
)
LAYOUTS: QuestionEntry[LayoutsRequest, LayoutsReport] = QuestionEntry(
    "layouts",
    "Find the degrees with which a model fits on its GPUs, and the storage that each needs. The best comes first.",
    panel="Size",
)
REMATERIALIZE: QuestionEntry[RematerializationRequest, RematerializationReport] = QuestionEntry(
    "rematerialize",
    "Say which layers to compute again (activation checkpointing) so that a batch fits, and what that costs.",
)
STAGES: QuestionEntry[StagesRequest, StagesReport] = QuestionEntry(
    "stages",
    "Say which layers to put on which kind of node (Pipe-torch), how HetPipe would group them, and who writes what.",
)
TECHNIQUES: QuestionEntry[TechniquesRequest, TechniquesReport] = QuestionEntry(
    "techniques",
    "List the techniques of training; with a scenario or its flags, try each on it and show what that changes.",
)
COMPARE: QuestionEntry[ComparisonRequest, ComparisonReport] = QuestionEntry(
    "compare",
    "Compare scenarios: which inputs and figures differ, and which input makes which difference.",
    panel="Decide",
)
DECIDE: QuestionEntry[DecisionRequest, DecisionReport] = QuestionEntry(
    "decide",
    "Decide which offer is enough and costs least, with the GPU time that it loses and its best settings.",
    panel="Decide",
)
CLUSTER: QuestionEntry[ClusterScenario, ClusterReport] = QuestionEntry(
    "cluster",
    "Size shared storage for many jobs: collisions, stalls under contention, restore storms, what to buy.",
    panel="Decide",
)

QUESTIONS: dict[str, QuestionEntry[Any, Any]] = {
    entry.name: entry
    for entry in (
        *(ANSWER, MANIFEST, REQUIRE, SWEEP, SIMULATE, SENSITIVITY, LAYOUTS, REMATERIALIZE, STAGES, TECHNIQUES),
        *(COMPARE, DECIDE, CLUSTER),
    )
}
"""By name, in the order in which help lists the verbs."""
