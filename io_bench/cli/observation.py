"""The verb that reads off a run's checkpoints how it saved."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from io_bench.cli.exits import ended
from io_bench.terminal import Terminal
from sizing.errors import EXIT_BAD_INPUT, InvalidInput, SizingError


def observe(
    run: Annotated[
        str, typer.Argument(metavar="DIR_OR_URL", help="Folder, or s3://bucket/prefix, that holds a run's checkpoints.")
    ],
    scenario: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Scenario of the run for ckpt-size. Default: what the newest save tells."),
    ] = None,
    write_scenario: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the scenario with what was observed, for ckpt-size FILE.")
    ] = None,
    output: Annotated[str | None, typer.Option(metavar="FILE", help="Write the answer as JSON.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Read off the checkpoints of a real run how it saved: interval, rates, stops, growth; no tensor is read.

    Beside it stands what ckpt-size says for the run.
    """
    try:
        _observe(run, scenario=scenario, write_scenario=write_scenario, output=output, as_json=as_json)
    except SizingError as error:
        raise ended(str(error), EXIT_BAD_INPUT, is_speaker=True) from None


def _observe(run: str, *, scenario: Path | None, write_scenario: str | None, output: str | None, as_json: bool) -> None:
    from io_bench.observation.observation import observed  # noqa: PLC0415 - the rest needs none of this
    from io_bench.observation.observation_table import observation_table  # noqa: PLC0415 - as above
    from io_bench.results.result_file import ResultFile  # noqa: PLC0415 - as above
    from sizing.cli.files import read_document  # noqa: PLC0415 - as above

    scenario_file = ResultFile(write_scenario, flag="--write-scenario") if write_scenario is not None else None
    answer_file = ResultFile(output) if output is not None else None
    found = observed(run, base=read_document(scenario) if scenario is not None else None)
    text = found.model_dump_json(indent=2) + "\n"
    terminal = Terminal(is_speaker=True)
    if as_json:
        sys.stdout.write(text)
    else:
        terminal.show(observation_table(found))
    if answer_file is not None:
        answer_file.write(text)
    if scenario_file is not None:
        if found.scenario is None:
            rule, remedy = "has nothing to write: the model is not known", "give --scenario FILE with the model"
            raise InvalidInput.of("--write-scenario", rule, value=None, remedy=remedy)
        scenario_file.write(json.dumps(found.scenario, indent=2) + "\n")
        terminal.say(f"Scenario written: ckpt-size {scenario_file.path}")
