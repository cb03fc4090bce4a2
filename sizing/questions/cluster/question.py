"""Question: how many jobs share one storage system, how it is asked and shown."""

from __future__ import annotations

from sizing.questions.cluster.answer import answer_cluster
from sizing.questions.cluster.charts import cluster_chart
from sizing.questions.cluster.report import ClusterReport
from sizing.questions.cluster.request import REFERENCE_CLUSTER, ClusterScenario
from sizing.questions.cluster.words import cluster_summary
from sizing.questions.question import Check, Question, RequestFiles, RestRoute

QUESTION = Question[ClusterScenario, ClusterReport](
    title="Checkpoint storage of a cluster",
    request=ClusterScenario,
    report=ClusterReport,
    example=REFERENCE_CLUSTER,
    quick_example=REFERENCE_CLUSTER | {"horizon_seconds": "1d"},
    route=RestRoute(
        path="clusters",
        name="create_cluster",
        summary="Size many jobs on one storage system",
        description="Many jobs on one storage system: stalls under contention, peak, restore storms, bandwidth to buy.",
        example="1T beside forty of 8B",
    ),
    answer=answer_cluster,
    summary=cluster_summary,
    charts=lambda report: [cluster_chart(report)],
    command_line=RequestFiles(
        "jobs", "Groups of jobs and the storage they share, JSON or YAML", scenarios_in="jobs", has_example=True
    ),
    chart=cluster_chart,
    check=Check("Exit with 1 where a target is missed, or none is given", lambda report: not report.meets_targets),
    working="Simulating",
    is_wide=True,
    may_name_calibrations=("storage.calibration",),
    schema_name="cluster",
)
