"""The verbs of `ckpt-size`: each question of the registry, checkpoints to inspect, catalogs and what is published.

What a verb does is imported when it runs. What help says of all of them stands with their parameters, and for questions
in the registry.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

from typer.core import TyperCommand
from typer.models import CommandInfo

from sizing.cli.own_verbs import OWN_VERBS
from sizing.cli.question_verbs import question_verb
from sizing.loading import loading
from sizing.present.catalogs import CATALOGS, Catalog
from sizing.questions.registry import QUESTIONS, Panel, QuestionEntry
from sizing.terminal.program import UnknownVerb, Verbs, Version, program_app


class AnswerByDefault(Verbs):
    """The verbs, where a bare file or flag is preceded by the verb `answer`."""

    unknown = "is neither a file nor a verb of"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the verb `answer` before a bare file or flag, and parse the words."""
        own = {name for parameter in self.params for name in parameter.opts}
        first = next(iter(args), "--help")
        if not first.startswith("-") and first not in self.commands and not _exists(first):
            _refuse_model(first, ctx.command_path)
        is_file = "/" in first or "." in first or _exists(first)
        if first in own or first in ctx.help_option_names or not (first.startswith("-") or is_file):
            return super().parse_args(ctx, args)
        return super().parse_args(ctx, ["answer", *args])

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """List what may come next: a verb, or a flag of the program or of `answer`."""
        return [
            *super().shell_complete(ctx, incomplete),
            *self.commands["answer"].shell_complete(ctx, incomplete),
        ]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, for which no verb is imported."""
        listed = copy.copy(self)
        late = [verb for verb in app.registered_commands if isinstance(verb, LateVerb)]
        listed.commands = {
            str(verb.name): TyperCommand(verb.name, callback=None, help=verb.line, rich_help_panel=verb.rich_help_panel)
            for verb in sorted(late, key=lambda verb: get_args(Panel).index(verb.rich_help_panel))
        }
        super(AnswerByDefault, listed).format_help(ctx, formatter)


def _exists(word: str) -> bool:
    """Whether a word is the path of something; one that is too long for a path is not."""
    try:
        return Path(word).exists()
    except OSError:
        return False


def _refuse_model(word: str, program: str) -> None:
    """Raise UnknownVerb where a word that is no file is a model of the catalog, with the flag that takes it."""
    with loading():
        from sizing.model.catalog import preset_of_name  # noqa: PLC0415 - a word that is a verb or a file needs no catalog
    if preset_of_name(word):
        raise UnknownVerb(f"{word} is a model, and no file: write {program} --model {word}.")


class LateVerb(CommandInfo):
    """A verb whose parameters are read when it is built; `line` is what the help of the program says, in a `panel`."""

    def __init__(self, name: str, line: str, panel: Panel) -> None:
        super().__init__(name, rich_help_panel=panel)
        self.line = line
        del self.callback, self.help

    def __getattr__(self, name: str) -> Any:
        """Load the function and the help of the verb, which typer reads when it builds the verb."""
        if name not in ("callback", "help"):
            raise AttributeError(name)
        with loading():
            self.callback, self.help = self.load()
        return getattr(self, name)

    @abstractmethod
    def load(self) -> tuple[Callable[..., None], str]:
        """Return the function that typer calls, and the whole help."""


class QuestionVerb(LateVerb):
    """The verb of a question, whose folder is imported when the question is asked."""

    def __init__(self, entry: QuestionEntry[Any, Any]) -> None:
        super().__init__(entry.name, entry.help, entry.panel)
        self._entry = entry

    def load(self) -> tuple[Callable[..., None], str]:
        """Read what help says of the question."""
        return question_verb(self._entry)


class OwnVerb(LateVerb):
    """A verb that asks no question."""

    def __init__(self, verb: Callable[..., None]) -> None:
        super().__init__(verb.__name__.removesuffix("_verb"), str(verb.__doc__), "Inspect")
        self._verb = verb

    def load(self) -> tuple[Callable[..., None], str]:
        """Return the function, which imports what it needs when it runs."""
        return self._verb, self.line


class CatalogVerb(LateVerb):
    """The verb that lists a catalog which no question lists."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(catalog.verb, catalog.help, "Catalogs")
        self._catalog = catalog

    def load(self) -> tuple[Callable[..., None], str]:
        """Import what draws tables."""
        from sizing.cli.catalogs import listing_verb  # noqa: PLC0415 - the help of the program needs no table

        return listing_verb(self._catalog), self.line


app = program_app(
    verbs=AnswerByDefault,
    help="Size the storage that a training cluster needs for its checkpoints. "
    "`ckpt-size SCENARIO.json` or `ckpt-size --model NAME ...` mean `ckpt-size answer ...`.",
)


@app.callback()
def _options(version: Version = False) -> None:
    pass


app.registered_commands.extend(map(QuestionVerb, QUESTIONS.values()))
app.registered_commands.extend(map(OwnVerb, OWN_VERBS))
app.registered_commands.extend(CatalogVerb(catalog) for catalog in CATALOGS if catalog.verb not in QUESTIONS)
