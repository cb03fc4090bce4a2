"""Question: which layers to compute again so that a batch fits, how it is asked and shown."""

from __future__ import annotations

from sizing.questions.headroom import HEADROOM
from sizing.questions.question import SIZE_FIELDS, STEP_FIELDS, Check, Option, Question, RestRoute, ScenarioFlags
from sizing.questions.rematerialize.answer import answer_rematerialization
from sizing.questions.rematerialize.report import RematerializationReport
from sizing.questions.rematerialize.request import REFERENCE_REMATERIALIZATION, RematerializationRequest
from sizing.questions.rematerialize.words import rematerialization_summary

QUESTION = Question[RematerializationRequest, RematerializationReport](
    title="Layers to compute again",
    request=RematerializationRequest,
    report=RematerializationReport,
    example=REFERENCE_REMATERIALIZATION,
    route=RestRoute(
        path="rematerializations",
        name="create_rematerialization",
        summary="Say which layers to compute again",
        description="Which layers of each pipeline stage to compute again so that the batch fits the GPUs, and what "
        "that costs.",
        example="GPT-3, batch doubled",
    ),
    answer=lambda request, _: answer_rematerialization(request),
    summary=rematerialization_summary,
    command_line=ScenarioFlags(
        layout="found",
        may_be_request=True,
        first_fields=(
            *SIZE_FIELDS,
            *STEP_FIELDS,
            "training.framework",
            "training.recomputation",
            "parallelism.context",
        ),
    ),
    options=(
        Option("gpu-memory", "gpu_memory_bytes", "Memory of one GPU: 80GB. Default: the node's", metavar="BYTES"),
        HEADROOM,
    ),
    more_help="Give {training.micro_batch_size} and {training.sequence_length}, or a scenario with them.",
    check=Check(
        "Exit with 1 where not even every layer is enough", lambda report: report.num_recomputed_layers is None
    ),
)
