"""One style for the project's programs: help, version, completion, errors and exit codes.

Exit code 0 for what was done, 1 for a target that is missed or a run that failed, 2 for what cannot be done as asked,
128 + signal for what was interrupted. Errors go to standard error, a line for each, which begins with `error:`.
Colors are left out where NO_COLOR is set: rich, which draws help and tables, looks for it.
"""

from __future__ import annotations

import copy
import os
import sys
from collections import UserDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
import typer.main
from typer._completion_shared import get_completion_script  # what the option itself prints for the shell around it
from typer.core import TyperCommand, TyperGroup
from typer.models import CommandInfo

from sizing.errors import EXIT_BAD_INPUT, SizingError
from sizing.loading import loading
from sizing.spelling import nearest
from sizing.terminal.verb_help import Verb
from sizing.version import __version__

EXIT_INTERRUPTED = 130
"""128 + SIGINT, as shells have it."""

_MIN_ALIKE = 2 / 3
"""Min share of letters that a word has in common with what it is taken for; with less, --nonsense were --nodes."""

_OURS = ("sizing", "io_bench", "service", "service_client", "mcp_server")


@dataclass(frozen=True, slots=True)
class Program:
    """A program of this project.

    `extra`: of this package, without which it lacks libraries. `flags_elsewhere`: what other tools call its flags.
    `flags_without_effect`: flags of other tools that change no answer.
    """

    name: str
    extra: str = ""
    flags_elsewhere: Mapping[str, str] = field(default_factory=dict)
    flags_without_effect: Collection[str] = ()


class UnknownVerb(SizingError):
    """A word on the command line that is none of those that may stand there."""


class InterruptedByUser(SizingError):
    """Somebody interrupted the program: an exception that typer does not make an exit code of without a word."""


TAKE_SEVERAL = ("--from", "--against")
"""Flags of several files, which stand one after the other."""


def repeat_flags(args: list[str]) -> list[str]:
    """Write `--from A B` as `--from A --from B`.

    >>> repeat_flags(["--from", "ds.json", "args.yaml", "--gpus", "8"])
    ['--from', 'ds.json', '--from', 'args.yaml', '--gpus', '8']
    """
    written: list[str] = []
    flag = ""
    for word in args:
        if word.startswith("-"):
            flag = word if word in TAKE_SEVERAL else ""
        elif flag and written[-1] != flag:
            written.append(flag)
        written.append(word)
    return written


SHELLS = ("bash", "fish", "powershell", "pwsh", "zsh")
"""Shells that typer writes a completion for."""


class Verbs(TyperGroup):
    """The verbs of a program; for a word that is none the nearest is named."""

    unknown = "is not a verb of"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words, where a flag of several files has them one after the other.

        A shell behind `--show-completion` is the one whose completion is shown.
        """
        if len(args) == 2 and args[0] == "--show-completion" and not ctx.resilient_parsing:
            if args[1] not in SHELLS:
                known = f"{', '.join(SHELLS[:-1])} or {SHELLS[-1]}"
                raise UnknownVerb(f"{args[1]} is no shell whose completion is known: give {known}.")
            name = str(ctx.find_root().info_name)
            variable = f"_{name.replace('-', '_').upper()}_COMPLETE"
            typer.echo(get_completion_script(prog_name=name, complete_var=variable, shell=args[1]))
            raise typer.Exit
        return super().parse_args(ctx, repeat_flags(args))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Resolve the verb that the first of the words names."""
        word = args[0]
        if ctx.resilient_parsing or word in self.commands:
            return super().resolve_command(ctx, args)
        is_below_one_name = ctx.parent is not None and ctx.parent.info_name == ONE_NAME
        known = [*self.commands, *(PROGRAMS if is_below_one_name else ())]
        raise UnknownVerb(f"{word} {self.unknown} {ctx.command_path}: {_remedy(word, known, ctx)}.")

    def invoke(self, ctx: Any) -> Any:
        """Run the verb; one that somebody interrupts ends with InterruptedByUser."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise InterruptedByUser from None


ONE_NAME = "ckpt"
"""The command whose verbs are the programs: `ckpt bench` is `ckpt-bench`."""
PROGRAMS = {
    "size": "Size the storage that a training cluster needs for its checkpoints (ckpt-size)",
    "bench": "Write and restore real checkpoints on the nodes, and calibrate the answer (ckpt-bench)",
    "serve": "Serve the answers by REST, and with a page (ckpt-serve)",
    "mcp": "Answer programs that ask by the Model Context Protocol (ckpt-mcp)",
}
"""What each program does, by its verb. Words that name none are meant for the first."""


class _Programs(Verbs):
    """The programs as verbs of one command; a word that names none is preceded by `size`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the verb `size` before a word that is neither a program nor a flag of this command; parse the words."""
        own = {name for parameter in self.get_params(ctx) for name in parameter.opts}
        return super().parse_args(ctx, ["size", *args] if args and args[0] not in {*PROGRAMS, *own} else args)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """List what may come next: a program, or what may follow `size`."""
        size = self.commands["size"]
        with size.make_context("size", [], parent=ctx, resilient_parsing=True) as inner:
            items = [*super().shell_complete(ctx, incomplete), *size.shell_complete(inner, incomplete)]
        return list({item.value: item for item in items}.values())


class _LateVerbs(UserDict[str, Any]):
    """Verbs by name, each built when it is first asked for: typer takes a tenth of a second for the flags of all."""

    def __init__(self, app: typer.Typer, groups: Mapping[str, Any]) -> None:
        super().__init__()
        self._app = app
        for verb in app.registered_commands:
            name = verb.name or typer.main.get_command_name(getattr(verb.callback, "__name__", ""))
            self.data[name] = verb
        self.data |= groups

    def __getitem__(self, name: str) -> Any:
        verb = self.data[name]
        if isinstance(verb, CommandInfo):
            alone = typer.Typer(add_completion=False, rich_markup_mode=self._app.rich_markup_mode)
            alone.registered_commands = [described := copy.copy(verb)]
            described.cls = Verb
            alone.pretty_exceptions_short = self._app.pretty_exceptions_short
            verb = self.data[name] = _with_plain_switches(typer.main.get_command(alone))
        return verb


def _with_plain_switches(command: Any) -> Any:
    """Let help show switches as switches, which take no value."""
    for parameter in command.params:
        if getattr(parameter, "is_flag", False):
            parameter.display_type_rich = _no_type
    get_help_option = command.get_help_option

    def plain_help_option(ctx: Any) -> Any:
        option = get_help_option(ctx)
        if option is not None:
            option.display_type_rich = _no_type
        return option

    command.get_help_option = plain_help_option
    return command


def _no_type(**_: Any) -> None:
    """Show no type beside a switch."""


def program_of(app: typer.Typer) -> Any:
    """Build the program that an app describes, with verbs that are built when they are asked for."""
    without_verbs = copy.copy(app)
    without_verbs.registered_commands = []
    program: Any = _with_plain_switches(typer.main.get_command(without_verbs))
    program.commands = _LateVerbs(app, program.commands)
    return program


def _as_verb(program: Any, name: str) -> Any:
    """Build `ckpt` with a program as the verb `name`; of the others it has their lines of help alone."""
    app = program_app(verbs=_Programs, help="All programs under one name. Without a program's name: `ckpt size ...`.")

    @app.callback()
    def options(version: Version = False) -> None:
        pass

    one_name = program_of(app)
    one_name.commands = {each: TyperCommand(each, callback=None, help=line) for each, line in PROGRAMS.items()}
    program.name, program.short_help = name, PROGRAMS[name]
    one_name.commands[name] = program
    return one_name


def program_app(*, help: str, verbs: type[Verbs] = Verbs, **settings: Any) -> typer.Typer:  # noqa: A002 - typer's name
    """Make a program, or a group of its verbs, in the style of all of them."""
    return typer.Typer(
        cls=verbs,
        help=help,
        no_args_is_help=settings.pop("no_args_is_help", True),
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        **settings,
    )


def _print_version(context: typer.Context, *, is_given: bool) -> None:
    if is_given and not context.resilient_parsing:
        print(f"{context.command_path} {__version__}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
]


def run(program: Program, load: Callable[[], typer.Typer], arguments: list[str] | None = None) -> NoReturn:
    """Run a program with `arguments`, or those of the process, and exit as it ends.

    `load` imports it: what it needs may be missing, and may take a while in which somebody interrupts. A process that
    was started as `ckpt` has the program as a verb.
    """
    verb = program.name.removeprefix(f"{ONE_NAME}-")
    is_verb = arguments is None and Path(sys.argv[0]).name == ONE_NAME
    if is_verb:
        program = replace(program, name=f"{ONE_NAME} {verb}")
    try:
        with loading():
            app = load()
        command = _as_verb(program_of(app), verb) if is_verb else program_of(app)
        result = command(arguments, prog_name=ONE_NAME if is_verb else program.name, standalone_mode=False)
        sys.stdout.flush()
    except (InterruptedByUser, KeyboardInterrupt):
        fail(["interrupted."], exit_code=EXIT_INTERRUPTED)
    except SizingError as error:
        fail(str(error).splitlines())
    except typer.TyperException as error:
        fail(_usage_sentences(error, program), exit_code=error.exit_code)
    except ModuleNotFoundError as error:
        fail([_missing_sentence(error, program)])
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        result = 0
    sys.exit(result if isinstance(result, int) else 0)


def fail(sentences: Iterable[str], *, exit_code: int = EXIT_BAD_INPUT) -> NoReturn:
    """Say what is wrong, and exit."""
    for sentence in sentences:
        print(error_line(sentence), file=sys.stderr)
    sys.exit(exit_code)


def error_line(sentence: str) -> str:
    """Mark a sentence as one that says what is wrong."""
    return f"error: {sentence}"


def _usage_sentences(error: typer.TyperException, program: Program) -> list[str]:
    """Sentences on what is wrong with a command line; none where it only asked for help by giving no words at all."""
    message = error.format_message().strip().rstrip(".")
    if not message:
        return []
    context: Any = getattr(error, "ctx", None)
    if context is not None and hasattr(error, "possibilities"):
        flag = str(vars(error)["option_name"])
        known = [name for parameter in context.command.params for name in parameter.opts if name.startswith("--")]
        spelled = flag.lower().replace("_", "-")
        if spelled in program.flags_without_effect:
            return [f"{flag} changes neither sizes nor times of checkpoints: leave it out."]
        elsewhere = program.flags_elsewhere.get(spelled)
        remedy = f"did you mean {elsewhere}" if elsewhere in known else _remedy(flag, known, context)
        return [f"{flag} is not a flag of {context.command_path}: {remedy}."]
    command = context.command_path if context is not None else program.name
    return [f"{message[0].lower()}{message[1:]}: see {command} --help."]


def _remedy(word: str, known: Iterable[str], context: Any) -> str:
    close = nearest(word, list(known), max_names=1, min_alike=_MIN_ALIKE)
    return f"did you mean {close[0]}" if close else f"see {context.command_path} --help"


def _missing_sentence(error: ModuleNotFoundError, program: Program) -> str:
    """Say what to install for a missing library. A module of our own that is missing is our mistake."""
    library = (error.name or "").partition(".")[0]
    if library in _OURS or not library:
        raise error
    package = f"'checkpoint-sizing[{program.extra}]'" if program.extra else "checkpoint-sizing"
    return f"{program.name} needs {library}, which is not installed: pip install {package}."
