"""Question: with which layouts a model fits a number of GPUs, how it is asked and shown."""

from __future__ import annotations

from typing import get_args

from sizing.layout.degrees import SEARCHED_DEGREES
from sizing.questions.headroom import HEADROOM
from sizing.questions.layouts.answer import LayoutsWork
from sizing.questions.layouts.charts import layouts_chart
from sizing.questions.layouts.report import LayoutsReport
from sizing.questions.layouts.request import REFERENCE_SEARCH, LayoutsRequest, Objective
from sizing.questions.layouts.words import layouts_summary
from sizing.questions.question import STEP_FIELDS, Check, Option, Question, RestRoute, ScenarioFlags, split_at_commas


def _list_option(name: str, field: str, help_text: str, metavar: str = "N,N,...", *, is_further: bool = True) -> Option:
    return Option(name, field, help_text, metavar, read=split_at_commas, is_further=is_further)


QUESTION = Question[LayoutsRequest, LayoutsReport](
    title="Parallel layouts",
    request=LayoutsRequest,
    report=LayoutsReport,
    example=REFERENCE_SEARCH,
    route=RestRoute(
        path="layouts",
        name="create_layouts",
        summary="Find the layouts that fit the GPUs",
        description="All degrees with which a model fits `cluster.num_gpus`, ranked by an objective, with their "
        "storage needs.",
        example="405B on 16,384 GPUs",
    ),
    work=LayoutsWork,
    summary=layouts_summary,
    charts=lambda report: [layouts_chart(report)] if report.layouts else [],
    command_line=ScenarioFlags(
        may_be_request=True,
        first_fields=(
            *STEP_FIELDS,
            "model.preset",
            "model.num_parameters",
            "training.framework",
            "cluster.node",
            "cluster.num_gpus",
            "storage.profile.write_bytes_per_second",
        ),
    ),
    options=(
        Option("objective", "objective", f"The best first: {', '.join(get_args(Objective))}", metavar="NAME"),
        HEADROOM,
        _list_option("contexts", "contexts", "Context degrees to try, such as 1,2,4"),
        _list_option("micro-batches", "micro_batches", "Sizes of a microbatch to try, such as 1,2,4", is_further=False),
        _list_option("virtual-pipelines", "virtual_pipelines", "Virtual pipeline stages to try"),
        _list_option("expert-tensors", "expert_tensors", "Expert-tensor degrees to try, such as 1,8"),
        _list_option(
            "keep",
            "kept_degrees",
            f"Given degrees to keep: {', '.join(SEARCHED_DEGREES)}",
            "NAME,...",
            is_further=False,
        ),
        Option("no-offload", "offload", "Only layouts with everything on the GPU", value=False),
        Option("even-stages", "even_stages", "Only pipeline degrees that divide the layers", is_further=True),
        Option(
            "max-layouts",
            "max_layouts",
            "Max layouts to show (default: 20)",
            metavar="N",
            former="most",
            is_further=True,
        ),
    ),
    more_help="Everything else comes from the scenario. With {training.micro_batch_size} and "
    "{training.sequence_length}, activations count too.",
    chart=layouts_chart,
    check=Check("Exit with 1 where nothing fits", lambda report: not report.layouts),
    working="Searching",
    is_wide=True,
    refuse=LayoutsWork.refuse,
    draggable=lambda request: request.scenario,
)
