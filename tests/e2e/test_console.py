"""The programs have one style: help, version, errors, exit codes, colors, completion, and what is not installed."""

from __future__ import annotations

import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import io_bench.commands.main
import mcp_server.main
import service.cli.main
import sizing.cli.ckpt
import sizing.cli.main
from service.cli.flags import FIRST_SETTINGS
from service.settings import Settings
from sizing.cli.flags import FLAG_OF_FIELD
from sizing.questions.question import ScenarioFlags
from sizing.questions.registry import QUESTIONS
from sizing.version import __version__
from tests.testbed.processes import SECONDS_UNTIL_STUCK
from tests.testbed.terminal import typed

MAINS: dict[str, Callable[[], None]] = {
    "ckpt-size": sizing.cli.main.main,
    "ckpt-bench": io_bench.commands.main.main,
    "ckpt-serve": service.cli.main.main,
    "ckpt-mcp": mcp_server.main.main,
}
MODULES = {name: main.__module__ for name, main in MAINS.items()}
PROGRAMS = tuple(MAINS)
VERB_WITH_FLAGS = {
    "ckpt-size": ["answer"],
    "ckpt-bench": ["run"],
    "ckpt-serve": ["token", "create"],
    "ckpt-mcp": [],
}
COLOR = re.compile(r"\x1b\[[0-9;]*3[0-7][0-9;]*m")
ROOT = Path(__file__).parents[2]


def shown(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return typed(MAINS[program], program, *arguments)


def started(program: str, *arguments: str, prelude: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """The program in a process of its own."""
    code = f"{prelude}\nfrom {MODULES[program]} import main\nmain()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS_UNTIL_STUCK,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
    )


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_version_is_that_of_the_package(program: str) -> None:
    found = shown(program, "--version")
    assert (found.returncode, found.stdout, found.stderr) == (0, f"{program} {__version__}\n", "")


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_has_the_same_form(program: str, flag: str) -> None:
    for verb in ([], VERB_WITH_FLAGS[program]):
        found = shown(program, *verb, flag)
        assert found.returncode == 0
        assert f"Usage: {' '.join([program, *verb])} " in found.stdout
        assert "╭─ Options " in found.stdout
    for option in ("--version", "--install-completion", "--show-completion"):
        assert option in shown(program, flag).stdout


@pytest.mark.parametrize(
    ("program", "arguments", "text"),
    [
        ("ckpt-size", ["answer"], "(checkpoint.interval_seconds; e.g. 30min; default: 4.00 h)"),
        ("ckpt-bench", ["run"], "Payload of each rank. Default: 256MiB or more, so that a write takes 5 s."),
        ("ckpt-serve", [], "Environment: CKPT_SERVE_PORT. Default: 8000."),
    ],
)
def test_help_keeps_what_it_says_in_brackets_and_of_defaults(program: str, arguments: list[str], text: str) -> None:
    words = re.sub(r"[│\s]+", " ", shown(program, *arguments, "--help").stdout)
    assert text in words


def flags_in(text: str) -> set[str]:
    """The flags that a help has as rows, without those that ask for help."""
    return set(re.findall(r"│[ *]{1,4}(--[\w-]+)", text)) - {"--help", "--help-all"}


@pytest.mark.parametrize(
    "command",
    [
        *(f"ckpt-size {name}" for name in QUESTIONS if name not in ("compare", "cluster")),
        "ckpt-bench run",
        "ckpt-bench scan",
        "ckpt-serve",
    ],
)
def test_help_has_the_twenty_flags_that_matter_and_says_where_the_others_are(command: str) -> None:
    program, *verb = command.split()
    few, every = (shown(program, *verb, flag).stdout for flag in ("--help", "--help-all"))
    assert flags_in(few) < flags_in(every)
    assert 12 < len(flags_in(few)) <= 20
    assert f"{len(flags_in(every) - flags_in(few))} more flags: {command} --help-all" in " ".join(few.split())


@pytest.mark.parametrize(
    "command", ["ckpt-size compare", "ckpt-size cluster", "ckpt-size inspect", "ckpt-bench mlperf", "ckpt-bench check"]
)
def test_a_verb_of_few_flags_takes_help_all_and_does_not_offer_it(command: str) -> None:
    program, verb = command.split()
    few, every = (shown(program, verb, flag) for flag in ("--help", "--help-all"))
    assert (every.returncode, flags_in(every.stdout)) == (0, flags_in(few.stdout))
    assert "--help-all" not in few.stdout


@pytest.mark.parametrize(
    ("verb", "flags"),
    [
        ("require", {"--max-overhead", "--max-stall", "--recovery", "--min-goodput"}),
        ("manifest", {"--optimizer", "--zero-stage", "--files-per-rank"}),
        ("rematerialize", {"--recomputation", "--sequence-length", "--micro-batch"}),
        ("stages", {"--virtual-pipeline", "--schedule"}),
    ],
)
def test_help_has_the_flags_that_matter_to_the_verb(verb: str, flags: set[str]) -> None:
    assert flags < flags_in(shown("ckpt-size", verb, "--help").stdout)
    assert not flags & flags_in(shown("ckpt-size", "answer", "--help").stdout)


def test_each_setting_and_field_whose_flag_help_shows_first_has_one() -> None:
    assert set(FIRST_SETTINGS) < set(Settings.model_fields)
    for entry in QUESTIONS.values():
        asked_by = entry.question.command_line
        if isinstance(asked_by, ScenarioFlags):
            assert set(asked_by.first_fields) <= set(FLAG_OF_FIELD)


def test_help_lists_each_verb_in_one_panel_and_shows_switches_as_such() -> None:
    found = shown("ckpt-size", "--help").stdout
    panels = re.findall(r"╭─ (\w+) ", found)
    assert panels == ["Options", "Size", "Decide", "Explore", "Inspect", "Catalogs"]
    assert "<bool>" not in found + shown("ckpt-bench", "run", "--help").stdout


def ckpt(*arguments: str) -> subprocess.CompletedProcess[str]:
    return typed(sizing.cli.ckpt.main, "ckpt", *arguments)


@pytest.mark.parametrize("program", PROGRAMS)
def test_one_name_starts_all_programs_and_says_how_it_was_called(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    main = {"ckpt-bench": MAINS["ckpt-bench"]}.get(program)
    if main is not None:  # the installed one ends the process
        monkeypatch.setattr("io_bench.__main__.start", main)
    verb = program.removeprefix("ckpt-")
    assert ckpt(verb, "--version").stdout == f"ckpt {verb} {__version__}\n"
    words = [verb, *VERB_WITH_FLAGS[program]]
    assert f"Usage: ckpt {' '.join(words)} " in ckpt(*words, "--help").stdout
    refused = ckpt(*words, "--nonsense")
    command = " ".join(["ckpt", *words])
    assert refused.stderr == f"error: --nonsense is not a flag of {command}: see {command} --help.\n"


def test_the_one_name_has_its_own_version_and_lists_the_programs() -> None:
    assert ckpt("--version").stdout == f"ckpt {__version__}\n"
    shown = ckpt("--help").stdout
    assert "Usage: ckpt [OPTIONS] COMMAND" in shown
    assert re.findall(r"│ (size|bench|serve|mcp) ", shown) == ["size", "bench", "serve", "mcp"]


def test_the_one_name_without_a_program_sizes() -> None:
    flags = ("--model", "gpt2", "--json")
    assert ckpt(*flags).stdout == ckpt("size", "answer", *flags).stdout == shown("ckpt-size", *flags).stdout


def test_a_program_that_is_spelled_wrong_is_named() -> None:
    refused = ckpt("serv")
    assert refused.stderr == "error: serv is neither a file nor a verb of ckpt size: did you mean serve.\n"


def test_a_command_of_the_service_takes_the_database_that_stands_before_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.sqlite3"
    assert ckpt("serve", "--database-url", url, "migrate").returncode == 0
    assert (tmp_path / "a.sqlite3").exists()


@pytest.mark.parametrize(
    ("shell", "script"),
    [
        ("bash", "complete -o default -F _ckpt_completion ckpt"),
        ("zsh", "compdef _ckpt_completion ckpt"),
        ("fish", "complete --command ckpt "),
    ],
)
@pytest.mark.parametrize("words", [(), ("size",), ("serve",)])
def test_completion_of_the_one_name_is_for_the_one_name(shell: str, script: str, words: tuple[str, ...]) -> None:
    assert script in ckpt(*words, "--show-completion", shell).stdout


@pytest.mark.parametrize(
    ("line", "completions"),
    [
        ("ckpt s", ["size", "serve", "sweep", "simulate", "sensitivity", "stages", "storage"]),
        ("ckpt be", ["bench"]),
        ("ckpt mod", ["models"]),
        ("ckpt --mod", ["--model", "--modules-to-save", "--mode"]),
        ("ckpt size mod", ["models"]),
        ("ckpt size layouts --node dgx-a", ["dgx-a100"]),
        ("ckpt layouts --node dgx-a", ["dgx-a100"]),
        ("ckpt bench sc", ["scan", "schema"]),
        ("ckpt bench run --max-b", ["--max-bytes", "--max-bandwidth"]),
        ("ckpt serve token cr", ["create"]),
        ("ckpt mcp --ht", ["--http"]),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_completes_the_verbs_of_each_program_below_the_one_name(
    shell: str, line: str, completions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("io_bench.__main__.start", MAINS["ckpt-bench"])
    monkeypatch.setenv("_CKPT_COMPLETE", f"complete_{shell}")
    if shell == "bash":
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    else:
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
        monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    words = {
        "bash": r"(?m)^(\S+)$",
        "zsh": r'(?m)^(?:_arguments .*\()?"([^":]+)',
        "fish": r"(?m)^([\w-]+)(?:\t|$)",
    }
    assert re.findall(words[shell], ckpt().stdout) == completions


def test_completion_is_shown_for_the_shell_that_is_named() -> None:
    assert "compdef _ckpt_size_completion ckpt-size" in shown("ckpt-size", "--show-completion", "zsh").stdout
    assert shown("ckpt-size", "--show-completion", "cmd").stderr == (
        "error: cmd is no shell whose completion is known: give bash, fish, powershell, pwsh or zsh.\n"
    )


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--vesrion"], "--vesrion is not a flag of {program}: did you mean --version."),
        (["--nonsense"], "--nonsense is not a flag of {program}: see {program} --help."),
    ],
)
def test_a_flag_that_is_none_is_told_in_one_sentence(program: str, arguments: list[str], sentence: str) -> None:
    if program == "ckpt-size":
        arguments = [*VERB_WITH_FLAGS[program], *arguments]
        sentence = "--{flag} is not a flag of ckpt-size answer: see ckpt-size answer --help."
        sentence = sentence.format(flag=arguments[-1].removeprefix("--"))
    found = shown(program, *arguments)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == f"error: {sentence.format(program=program)}\n"


@pytest.mark.parametrize(
    ("program", "word", "sentence"),
    [
        ("ckpt-size", "llama-3.1-8b", "llama-3.1-8b is a model, and no file: write ckpt-size --model llama-3.1-8b."),
        ("ckpt-size", "modles", "modles is neither a file nor a verb of ckpt-size: did you mean models."),
        ("ckpt-bench", "scna", "scna is not a verb of ckpt-bench: did you mean scan."),
        ("ckpt-serve", "tokens", "tokens is not a verb of ckpt-serve: did you mean token."),
        ("ckpt-bench", "fly", "fly is not a verb of ckpt-bench: see ckpt-bench --help."),
    ],
)
def test_a_verb_that_is_none_is_told_in_one_sentence(program: str, word: str, sentence: str) -> None:
    found = shown(program, word)
    assert (found.returncode, found.stdout, found.stderr) == (2, "", f"error: {sentence}\n")


@pytest.mark.parametrize(
    ("program", "arguments", "sentence"),
    [
        (
            "ckpt-bench",
            ["run", "--directory", "x"],
            "--directory is not a flag of ckpt-bench run: did you mean --target.",
        ),
        ("ckpt-bench", ["run"], "missing option '--target': see ckpt-bench run --help."),
        ("ckpt-bench", ["run", "--target"], "option '--target' requires an argument: see ckpt-bench --help."),
        ("ckpt-bench", ["engines", "x"], "got unexpected extra argument(s) (x): see ckpt-bench engines --help."),
        ("ckpt-serve", ["--bind", "::1"], "--bind is not a flag of ckpt-serve: did you mean --host."),
        ("ckpt-serve", ["token", "crate"], "crate is not a verb of ckpt-serve token: did you mean create."),
        ("ckpt-size", ["inspect"], "missing argument 'path': see ckpt-size inspect --help."),
    ],
)
def test_a_command_line_that_is_none_is_one_sentence(program: str, arguments: list[str], sentence: str) -> None:
    found = shown(program, *arguments)
    assert (found.returncode, found.stdout, found.stderr) == (2, "", f"error: {sentence}\n")


@pytest.mark.parametrize("program", ["ckpt-size", "ckpt-bench"])
def test_nothing_at_all_shows_the_help_and_is_not_success(program: str) -> None:
    found = shown(program)
    assert found.returncode == 2
    assert "Usage: " in found.stdout
    assert "error" not in found.stderr


@pytest.mark.parametrize("place", ["main.get_command", "core.TyperGroup.invoke"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_an_interrupt_has_the_exit_code_of_shells(program: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"typer.{place}", interrupted)
    found = shown(program, *VERB_WITH_FLAGS[program])
    assert (found.returncode, found.stderr) == (128 + signal.SIGINT, "error: interrupted.\n")


@pytest.mark.long
def test_colors_are_left_out_where_they_are_not_wanted() -> None:
    """Of the help, of tables and of warnings, by the kit that all three programs share."""
    assert COLOR.search(on_a_terminal("ckpt-serve", "--help"))
    assert not COLOR.search(on_a_terminal("ckpt-serve", "--help", NO_COLOR="1"))
    flags = ("--model", "gpt2", "--mtbf", "9h", "--write-bandwidth", "1GB/s", "--interval", "9h")
    assert COLOR.search(on_a_terminal("ckpt-size", *flags))
    assert not COLOR.search(on_a_terminal("ckpt-size", *flags, NO_COLOR="1"))


def on_a_terminal(program: str, *arguments: str, **environment: str) -> str:
    """What a program writes to a terminal."""
    controller, terminal = pty.openpty()
    code = f"from {MODULES[program]} import main\nmain()"
    without = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=without | {"TERM": "xterm-256color", "PYTHONPATH": str(ROOT)} | environment,
    ):
        os.close(terminal)
        return b"".join(iter(lambda: _read(controller), b"")).decode()


def _read(controller: int) -> bytes:
    try:
        return os.read(controller, 65536)
    except OSError:  # the end of a terminal is an error on Linux
        os.close(controller)
        return b""


@pytest.mark.parametrize(
    ("line", "completions"),
    [
        ("ckpt-size mod", ["models"]),
        ("ckpt-size --mod", ["--model", "--modules-to-save", "--mode"]),
        ("ckpt-size --model llama-3.1-4", ["llama-3.1-405b"]),
        ("ckpt-size layouts --node dgx-a", ["dgx-a100"]),
        ("ckpt-size --model gpt2 --format torch-d", ["torch-dist"]),
        ("ckpt-bench sc", ["scan", "schema"]),
        ("ckpt-bench ml", ["mlperf"]),
        ("ckpt-bench observe --w", ["--write-scenario"]),
        ("ckpt-bench run --max-b", ["--max-bytes", "--max-bandwidth"]),
        ("ckpt-serve tok", ["token"]),
        ("ckpt-serve token cr", ["create"]),
        ("ckpt-serve --database", ["--database-url"]),
    ],
)
def test_the_shell_completes_verbs_flags_and_names(
    line: str, completions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program, *words = line.split()
    monkeypatch.setenv(f"_{program.replace('-', '_').upper()}_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    assert shown(program).stdout.split() == completions


def test_the_script_for_the_shell_is_for_the_program() -> None:
    command = (
        f"{shlex.quote(sys.executable)} -c 'from {MODULES['ckpt-bench']} import main; main()' --show-completion; true"
    )
    script = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=SECONDS_UNTIL_STUCK, check=True
    ).stdout
    assert "complete -o default -F _ckpt_bench_completion ckpt-bench" in script


WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {libraries!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""
BENCH = ("fsspec", "httpx", "psutil", "safetensors", "torch", "xxhash")
SERVICE = (
    "alembic",
    "fastapi",
    "jinja2",
    "prometheus_client",
    "pydantic_settings",
    "sqlalchemy",
    "starlette",
    "uvicorn",
)


@pytest.mark.long
@pytest.mark.parametrize("libraries", [BENCH, ("xxhash",)])
def test_a_benchmark_without_its_libraries_says_what_to_install(libraries: tuple[str, ...], tmp_path: Path) -> None:
    flags = ("--target", str(tmp_path), "--bytes-per-rank", "1MiB", "--output", str(tmp_path / "result.json"))
    found = started("ckpt-bench", "run", *flags, prelude=WITHOUT.format(libraries=libraries))
    assert (found.returncode, found.stdout) == (2, "")
    sentence = r"error: ckpt-bench needs (\w+), which is not installed: pip install 'checkpoint-sizing\[bench\]'\.\n"
    missing = re.fullmatch(sentence, found.stderr)
    assert missing is not None, found.stderr
    assert missing[1] in libraries
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["--port", "0"], ["token", "list"]])
def test_a_service_without_its_libraries_says_what_to_install(arguments: list[str]) -> None:
    found = started("ckpt-serve", *arguments, prelude=WITHOUT.format(libraries=SERVICE))
    assert (found.returncode, found.stdout) == (2, "")
    assert re.fullmatch(
        r"error: ckpt-serve needs \w+, which is not installed: pip install 'checkpoint-sizing\[service\]'\.\n",
        found.stderr,
    )


def test_sizing_alone_needs_no_extra() -> None:
    found = started("ckpt-size", "--model", "gpt2", prelude=WITHOUT.format(libraries=(*BENCH, *SERVICE, "vl_convert")))
    assert found.returncode == 0, found.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("library", "name", "extra"),
    [("jinja2", "a.html", "report"), ("weasyprint", "a.pdf", "report"), ("vl_convert", "a.html", "charts")],
)
def test_a_report_without_its_libraries_says_what_to_install(
    library: str, name: str, extra: str, tmp_path: Path
) -> None:
    flags = ("--model", "gpt2", "--report", str(tmp_path / name))
    found = started("ckpt-size", *flags, prelude=WITHOUT.format(libraries=(library,)))
    assert (found.returncode, found.stdout) == (2, "")
    assert re.fullmatch(rf"error: the \w+ cannot be .*: pip install 'checkpoint-sizing\[{extra}\]'\.\n", found.stderr)
    assert list(tmp_path.iterdir()) == []


def test_a_module_of_our_own_that_is_missing_is_not_hidden() -> None:
    found = started(
        "ckpt-bench",
        "engines",
        prelude=WITHOUT.format(libraries=("io_bench.engines",)).replace('name.partition(".")[0]', "name"),
    )
    assert found.returncode == 1
    assert "Traceback" in found.stderr
