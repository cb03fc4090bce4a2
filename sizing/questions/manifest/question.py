"""Question: which files a checkpoint has, how it is asked and shown."""

from __future__ import annotations

from sizing.layout.manifest import ManifestRow
from sizing.present.document import titled_document
from sizing.present.grids import rank_classes_grid
from sizing.present.rows import Summary
from sizing.present.size import checkpoint_section
from sizing.questions.chunks import Progress
from sizing.questions.manifest.answer import answer_manifest, list_every_file
from sizing.questions.manifest.report import ManifestReport
from sizing.questions.manifest.request import REFERENCE_MANIFEST, ManifestRequest
from sizing.questions.manifest.words import manifest_summary
from sizing.questions.question import SIZE_FIELDS, Answer, CsvTable, Question, RestRoute, ScenarioFlags
from sizing.report import find_layout
from sizing.sized_layout import every_file_of

_TITLE = "Files of a checkpoint"


def _ask(request: ManifestRequest, _: Progress) -> Answer[ManifestReport]:
    """List the files that are wanted; the words stand on the answer to the scenario too."""
    layout = find_layout(request.scenario)
    report = layout.answer()
    manifest = answer_manifest(request, layout.scenario, report)
    size = (checkpoint_section(report),)
    return Answer(
        manifest,
        lambda: titled_document(_TITLE, manifest_summary(report, manifest), sections=size),
        lambda _: Summary(headline="", sections=size, grids=(rank_classes_grid(report),)),
        lambda: CsvTable(ManifestRow._fields, list_every_file(layout.scenario, report)),
    )


QUESTION = Question[ManifestRequest, ManifestReport](
    title=_TITLE,
    request=ManifestRequest,
    report=ManifestReport,
    example=REFERENCE_MANIFEST,
    route=RestRoute(
        path="manifests",
        name="create_manifest",
        summary="List the files of a checkpoint",
        description="The files of a checkpoint: by class of ranks, and one by one with the rank and node that writes "
        "each.",
        example="First files of 1T",
        tag="checkpoints",
        csv="all files",
    ),
    ask=_ask,
    command_line=ScenarioFlags(
        layout="found",
        first_fields=(
            *SIZE_FIELDS,
            "training.framework",
            "training.precision",
            "training.optimizer",
            "parallelism.data",
            "parallelism.expert",
            "parallelism.zero_stage",
            "checkpoint.format",
            "checkpoint.files_per_rank",
        ),
    ),
    stream=lambda request, _: CsvTable(ManifestRow._fields, every_file_of(request.scenario)),
    csv_help="Every file of worlds up to 100,000 ranks",
    needs_answer=lambda request: request.scenario,
)
