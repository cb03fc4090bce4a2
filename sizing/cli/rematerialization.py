"""`ckpt-size rematerialize`: which layers to compute again so that a scenario fits its GPUs, and what that costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from sizing.cli.report_files import REPORT_FILE, require_report_name, write_report
from sizing.cli.scenarios import AS_JSON, asked_document, laid_out
from sizing.cli.tables import summary_text
from sizing.cli.terminal import EXIT_MISSED, console
from sizing.explore.rematerializations.rematerialization import rematerialization
from sizing.reports.document import rematerialization_document
from sizing.summary.rematerializations import rematerialization_summary

REMATERIALIZE_OPTIONS: dict[str, tuple[Any, Any]] = {
    "gpu_memory": (
        str | None,
        typer.Option(None, "--gpu-memory", metavar="BYTES", help="Memory of one GPU: 80GB. Default: the node's"),
    ),
    "headroom": (
        str | None,
        typer.Option(None, "--headroom", metavar="FRACTION", help="Fraction of GPU memory kept free. Default: 0.1"),
    ),
    "report_file": REPORT_FILE,
    "as_json": AS_JSON,
    "check": (bool, typer.Option(False, "--check", help="Exit with 1 where not even every layer is enough")),
}

REMATERIALIZE_FIELDS = {"gpu_memory": "gpu_memory_bytes", "headroom": "headroom_fraction"}
"""What the options set in a RematerializationRequest."""


def rematerialize_verb(
    scenario: Path | None = None,
    *,
    storage: Path | None,
    hf_config: Path | None,
    checkpoint: Path | None,
    report_file: Path | None,
    as_json: bool,
    check: bool,
    **given: Any,
) -> None:
    """Say which layers to compute again (activation checkpointing) so that a batch fits, and what that costs.

    Give --micro-batch and --sequence-length, or a scenario with them.
    """
    require_report_name(report_file)
    fields = {field: given.pop(option) for option, field in REMATERIALIZE_FIELDS.items()}
    options = {name: value for name, value in fields.items() if value is not None}
    document = asked_document(scenario, storage=storage, hf_config=hf_config, checkpoint=checkpoint, flags=given)
    request = document if "scenario" in document else {"scenario": laid_out(document)}
    report = rematerialization(request | options)
    write_report(lambda: rematerialization_document(report), report_file)
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        console().print(summary_text(rematerialization_summary(report)))
    if check and report.num_recomputed_layers is None:
        raise typer.Exit(EXIT_MISSED)
