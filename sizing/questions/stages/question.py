"""Question: how pipeline stages stand on nodes of several kinds, how it is asked and shown."""

from __future__ import annotations

from sizing.questions.headroom import HEADROOM
from sizing.questions.question import SIZE_FIELDS, STEP_FIELDS, Option, Question, RestRoute, ScenarioFlags
from sizing.questions.stages.answer import answer_stages
from sizing.questions.stages.charts import stages_chart
from sizing.questions.stages.report import StagesReport
from sizing.questions.stages.request import REFERENCE_STAGES, StagesRequest, require_stages
from sizing.questions.stages.words import stages_summary

QUESTION = Question[StagesRequest, StagesReport](
    title="Stages on unlike nodes",
    request=StagesRequest,
    report=StagesReport,
    example=REFERENCE_STAGES,
    route=RestRoute(
        path="stages",
        name="create_stages",
        summary="Balance pipeline stages over unlike nodes",
        description="Which layers to put on which kind of node so that no stage waits long, and which nodes write how "
        "much then.",
        example="70B on A100 and H100",
    ),
    answer=lambda request, _: answer_stages(request),
    summary=stages_summary,
    terminal_summary=lambda report, style: stages_summary(report, spelling=style.spelling),
    charts=lambda report: [stages_chart(report)],
    command_line=ScenarioFlags(
        may_be_request=True,
        first_fields=(
            *SIZE_FIELDS,
            *STEP_FIELDS,
            "training.framework",
            "training.schedule",
            "parallelism.virtual_pipeline",
            "cluster.nodes",
        ),
    ),
    options=(
        HEADROOM,
        Option(
            "clock-distance",
            "clock_distance",
            "Waves by which virtual workers may be apart. Default: 0",
            metavar="N",
        ),
    ),
    more_help="Give {cluster.nodes}, {training.sequence_length}, {training.micro_batch_size} and "
    "{training.global_batch_size}, or a scenario with them.",
    chart=stages_chart,
    refuse=require_stages,
)
