"""The verbs of `ckpt-size`: a Scenario from a file and flags, a SizingReport as text or JSON."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sizing.checkpoint_files import contents_of
from sizing.cli.catalog_verbs import add_catalog_verbs
from sizing.cli.console import Verbs, Version, program_app
from sizing.cli.explore import (
    SWEEP_FIELDS,
    SWEEP_OPTIONS,
    cluster_verb,
    compare_verb,
    decide_verb,
    require_verb,
    sweep_verb,
)
from sizing.cli.field_reference import field_reference
from sizing.cli.files import read_storage_profile
from sizing.cli.flags import flag_words
from sizing.cli.inspection_table import inspection_table
from sizing.cli.layouts import LAYOUTS_FIELDS, LAYOUTS_OPTIONS, layouts_verb
from sizing.cli.rematerialization import REMATERIALIZE_FIELDS, REMATERIALIZE_OPTIONS, rematerialize_verb
from sizing.cli.report_files import REPORT_FILE, require_report_name, write_report
from sizing.cli.report_text import first_screen_text, manifest_text, report_text
from sizing.cli.scenarios import AS_JSON, CHECK, asked_layout, asked_scenario, with_scenario_parameters
from sizing.cli.sensitivity import SENSITIVITY_FIELDS, SENSITIVITY_OPTIONS, sensitivity_verb
from sizing.cli.simulation import SIMULATE_FIELDS, SIMULATE_OPTIONS, simulate_verb
from sizing.cli.stages import STAGES_FIELDS, STAGES_OPTIONS, stages_verb
from sizing.cli.techniques import TECHNIQUES_OPTIONS, techniques_verb
from sizing.cli.tensor_lists import tensors_verb
from sizing.cli.terminal import EXIT_MISSED, console
from sizing.cli.validation_table import WIDTH, validation_text
from sizing.layout.manifest import ManifestRow
from sizing.report import answer
from sizing.reports.document import sizing_document
from sizing.sized import manifest_of
from sizing.spreadsheets import TableWriter
from sizing.validation import validation


class AnswerByDefault(Verbs):
    """The verbs, where a bare file or flag is preceded by the verb `answer`."""

    unknown = "is neither a file nor a verb of"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The words as they are left to parse."""
        own = {name for parameter in self.params for name in parameter.opts}
        first = next(iter(args), "--help")
        if first in own or first in ctx.help_option_names or not (first.startswith("-") or _is_file(first)):
            return super().parse_args(ctx, args)
        return super().parse_args(ctx, ["answer", *args])

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """What may come next: a verb, or a flag of the program or of `answer`."""
        return [
            *super().shell_complete(ctx, incomplete),
            *self.commands["answer"].shell_complete(ctx, incomplete),
        ]


app = program_app(
    verbs=AnswerByDefault,
    help="Size the storage that a training cluster needs for its checkpoints. "
    "`ckpt-size SCENARIO.json` or `ckpt-size --model NAME ...` mean `ckpt-size answer ...`.",
)


def _is_file(word: str) -> bool:
    """Whether a word is there, or is written as only a file's name would be."""
    return "/" in word or "." in word or Path(word).exists()


def answer_verb(
    scenario: Path | None = None,
    *,
    storage: Path | None,
    hf_config: Path | None,
    checkpoint: Path | None,
    full: bool,
    report_file: Path | None,
    as_json: bool,
    check: bool,
    **flags: str | None,
) -> None:
    """Answer a scenario from a JSON or YAML file, from flags, or from a file with flags set over it."""
    require_report_name(report_file)
    asked = asked_layout(scenario, storage=storage, hf_config=hf_config, checkpoint=checkpoint, flags=flags)
    report = answer(asked.scenario, assumed=asked.assumed, nothing_fits=asked.nothing_fits)
    write_report(lambda: sizing_document(asked.scenario, report), report_file)
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        words = flag_words(scenario, flags)
        console().print(report_text(report, words) if full else first_screen_text(report, words))
    if check and any(target.met is False for target in report.targets):
        raise typer.Exit(EXIT_MISSED)


def manifest_verb(
    scenario: Path | None = None,
    *,
    storage: Path | None,
    hf_config: Path | None,
    checkpoint: Path | None,
    as_csv: bool,
    **flags: str | None,
) -> None:
    """List the files of a checkpoint by class of ranks, or each of them as CSV."""
    asked = asked_scenario(scenario, storage=storage, hf_config=hf_config, checkpoint=checkpoint, flags=flags)
    if as_csv:
        writer = TableWriter(sys.stdout)
        writer.row(ManifestRow._fields)
        writer.rows(manifest_of(asked))
    else:
        console().print(manifest_text(answer(asked)))


@app.callback()
def _options(version: Version = False) -> None:
    pass


app.command("answer")(
    with_scenario_parameters(
        answer_verb,
        full=(bool, typer.Option(False, "--full", help="Print all tables, their limits and what was assumed")),
        report_file=REPORT_FILE,
        as_json=AS_JSON,
        check=CHECK,
    )
)
app.command("manifest")(
    with_scenario_parameters(
        manifest_verb, as_csv=(bool, typer.Option(False, "--csv", help="Every file of worlds up to 100,000 ranks"))
    )
)


app.command("require")(with_scenario_parameters(require_verb, report_file=REPORT_FILE, as_json=AS_JSON, check=CHECK))
app.command("sweep")(with_scenario_parameters(sweep_verb, own_fields=SWEEP_FIELDS, **SWEEP_OPTIONS))
app.command("simulate")(with_scenario_parameters(simulate_verb, own_fields=SIMULATE_FIELDS, **SIMULATE_OPTIONS))
app.command("sensitivity")(
    with_scenario_parameters(sensitivity_verb, own_fields=SENSITIVITY_FIELDS, **SENSITIVITY_OPTIONS)
)
app.command("layouts")(
    with_scenario_parameters(layouts_verb, own_fields=LAYOUTS_FIELDS | {"no_offload": "offload"}, **LAYOUTS_OPTIONS)
)
app.command("rematerialize")(
    with_scenario_parameters(rematerialize_verb, own_fields=REMATERIALIZE_FIELDS, **REMATERIALIZE_OPTIONS)
)
app.command("stages")(with_scenario_parameters(stages_verb, own_fields=STAGES_FIELDS, **STAGES_OPTIONS))
app.command("techniques")(with_scenario_parameters(techniques_verb, own_fields=None, **TECHNIQUES_OPTIONS))
app.command("compare")(compare_verb)
app.command("decide")(decide_verb)
app.command("cluster")(cluster_verb)
app.command("tensors")(tensors_verb)


@app.command("inspect")
def inspect_verb(
    path: Annotated[Path, typer.Argument(help="A safetensors, torch DCP or torch.save file, or a folder")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the contents as JSON")] = False,
) -> None:
    """Read the sizes off an existing checkpoint, without loading its tensors or running its pickles."""
    contents = contents_of(path)
    if as_json:
        print(contents.model_dump_json(indent=2))
    else:
        console().print(inspection_table(contents))


@app.command("profile")
def profile_verb(result: Annotated[Path, typer.Argument(help="A result of ckpt-bench run")]) -> None:
    """Print the storage profile of a benchmark result, to put into a scenario."""
    print(read_storage_profile(result).model_dump_json(indent=2, exclude_none=True))


@app.command("validate")
def validate_verb(
    *, as_json: Annotated[bool, typer.Option("--json", help="Print the comparisons as JSON")] = False
) -> None:
    """Compare with what is published, in three parts. Exit with 1 where a miss is not explained."""
    report = validation()
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        console(width_without_terminal=WIDTH).print(validation_text(report))
    if not report.as_expected:
        raise typer.Exit(EXIT_MISSED)


@app.command("fields")
def fields_verb() -> None:
    """Print every field of a scenario and of its report: unit, default and what it is, as Markdown."""
    print(field_reference())


add_catalog_verbs(app)
