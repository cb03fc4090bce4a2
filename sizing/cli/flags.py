"""Flags for common fields of a Scenario: one table of flag to field."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sizing.cluster import node_catalog
from sizing.errors import REQUIRED, InvalidInput, Problem, UnreadableFile, alternatives_in, shown
from sizing.field_paths import value_at, with_fields
from sizing.guesses.fields import choices_of, field_at
from sizing.model import catalog
from sizing.run.failure_rates import published_rates
from sizing.storage.catalog import storage_profiles
from sizing.terminal.files import read_document
from sizing.units import figure_text

MAX_CHOICES = 6
"""Choices in a line of help, which is then still read; the error of a wrong value names them all."""


@dataclass(frozen=True, slots=True)
class Flag:
    """A command-line flag and the Scenario field that it sets.

    `alone`: the flag's block holds alternatives, so the others of the file give way. `sets`: the value that the flag
    sets, and then takes none.
    """

    name: str
    field: str
    metavar: str = "N"
    example: str = ""
    alone: bool = False
    sets: str = ""

    @property
    def parameter(self) -> str:
        """The flag's name as a Python identifier."""
        return self.name.removeprefix("--").replace("-", "_")

    @property
    def help(self) -> str:
        """Help text: the first sentence of the field's description, how to write it, and its default.

        >>> Flag("--interval", "checkpoint.interval_seconds", "TIME", "1h").help.replace(
        ...     "the start of one checkpoint to the start of the next", "..."
        ... )
        'Seconds from ... (checkpoint.interval_seconds; e.g. 1h; default: 4.00 h)'
        >>> Flag("--mode", "checkpoint.mode").help.partition(" (")[2]
        'checkpoint.mode; one of sync, async; default: sync)'
        """
        field = field_at(self.field)
        if self.sets:
            return f"{first_sentence(field.description or '')} ({self.field}: {self.sets})"
        all_choices = choices_of(field.annotation)
        few = all_choices if len(all_choices) <= MAX_CHOICES else [*all_choices[: MAX_CHOICES - 1], "..."]
        details = [self.field]
        if self.example:
            details.append(f"e.g. {self.example}")
        elif few:
            details.append(f"one of {', '.join(few)}")
        if isinstance(field.default, bool | int | float | str):
            details.append(f"default: {figure_text(self.field, field.default)}")
        return f"{first_sentence(field.description or '')} ({'; '.join(details)})"

    def completions(self, begun: str) -> list[str]:
        """List the names that may follow the flag and begin with `begun`.

        >>> Flag("--node", "cluster.node").completions("dgx-h")
        ['dgx-h100', 'dgx-h200']
        >>> Flag("--mode", "checkpoint.mode").completions("A")
        ['async']
        """
        names_of = _CATALOGS.get(self.field)
        names = names_of() if names_of else choices_of(field_at(self.field).annotation)
        return [name for name in names if name.startswith(begun.lower())]


_CATALOGS: dict[str, Callable[[], Iterable[str]]] = {
    "model.preset": catalog,
    "cluster.node": node_catalog,
    "storage.preset": storage_profiles,
    "reliability.preset": published_rates,
}

FLAGS = (
    Flag("--model", "model.preset", "NAME", "megatron-1t", alone=True),
    Flag("--parameters", "model.num_parameters", "N", "70B", alone=True),
    Flag("--active", "model.num_active_parameters", "N", "32B"),
    Flag("--experts", "model.num_experts"),
    Flag("--experts-per-token", "model.num_experts_per_token"),
    Flag("--framework", "training.framework", "NAME"),
    Flag("--precision", "training.precision", "NAME"),
    Flag("--optimizer", "training.optimizer", "NAME"),
    Flag("--distributed-optimizer", "training.distributed_optimizer", "YES/NO", "yes"),
    Flag("--critic", "training.reinforcement.critic_parameters", "N", "8B"),
    Flag("--publish-interval", "training.reinforcement.publication.interval_seconds", "TIME", "5min"),
    Flag("--publish", "training.reinforcement.publication.content", "KIND"),
    Flag("--publish-over", "training.reinforcement.publication.over", "WAY"),
    Flag("--publish-replicas", "training.reinforcement.publication.num_replicas"),
    Flag("--sequence-length", "training.sequence_length"),
    Flag("--micro-batch", "training.micro_batch_size"),
    Flag("--global-batch", "training.global_batch_size"),
    Flag("--tokens", "training.num_tokens", "N", "15T"),
    Flag("--critical-batch", "training.critical_batch_tokens", "N", "4M"),
    Flag("--step-time", "training.step_seconds", "TIME", "12s"),
    Flag("--schedule", "training.schedule", "NAME"),
    Flag("--recomputation", "training.recomputation", "NAME"),
    Flag("--recomputed-layers", "training.recomputed_layers"),
    Flag("--offload-optimizer", "training.offload.optimizer", "PLACE"),
    Flag("--offload-weights", "training.offload.weights", "PLACE"),
    Flag("--offload-activations", "training.offload.activations_fraction", "FRACTION", "0.5"),
    Flag("--compress-gradients", "training.gradient_compression.method", "NAME"),
    Flag("--tensor", "parallelism.tensor"),
    Flag("--pipeline", "parallelism.pipeline"),
    Flag("--virtual-pipeline", "parallelism.virtual_pipeline"),
    Flag("--layers-per-stage", "parallelism.layers_per_stage", "N,NxN,...", "3,14x4,2"),
    Flag("--first-stage-layers", "parallelism.first_stage_layers"),
    Flag("--last-stage-layers", "parallelism.last_stage_layers"),
    Flag("--embedding-counts-as-layer", "parallelism.embedding_counts_as_layer", "YES/NO", "yes"),
    Flag("--loss-counts-as-layer", "parallelism.loss_counts_as_layer", "YES/NO", "yes"),
    Flag("--context", "parallelism.context"),
    Flag("--data", "parallelism.data"),
    Flag("--expert", "parallelism.expert"),
    Flag("--expert-tensor", "parallelism.expert_tensor"),
    Flag("--zero-stage", "parallelism.zero_stage"),
    Flag("--shard-group", "parallelism.shard_group"),
    Flag("--table-sharding", "parallelism.table_sharding"),
    Flag("--node", "cluster.node", "NAME", "dgx-a100"),
    Flag("--gpus", "cluster.num_gpus"),
    Flag("--nodes", "cluster.nodes", "NxNODE,...", "8xdgx-a100,8xdgx-h100"),
    Flag("--storage-nics", "cluster.storage_nics", "NxRATE", "2x400Gb/s"),
    Flag("--lora-rank", "training.adapters.rank"),
    Flag("--lora-targets", "training.adapters.tensors", "NAME,...", "q_proj,v_proj"),
    Flag("--dora", "training.adapters.dora", "YES/NO", "yes"),
    Flag("--modules-to-save", "training.adapters.modules_to_save", "NAME,...", "embed_tokens,lm_head"),
    Flag("--bias", "training.adapters.bias", "NAME"),
    Flag("--base-dtype", "training.adapters.base_dtype", "DTYPE"),
    Flag("--load-in-4bit", "training.adapters.base_dtype", sets="nf4"),
    Flag("--load-in-8bit", "training.adapters.base_dtype", sets="int8"),
    Flag("--double-quant", "training.adapters.double_quant", "YES/NO", "yes"),
    Flag("--save-base", "training.adapters.save_base", "YES/NO", "yes"),
    Flag("--save-only-model", "training.saved_state.weights_alone", "YES/NO", "yes"),
    Flag("--ema", "training.saved_state.ema", "DTYPE", "fp32"),
    Flag("--frozen", "training.frozen", "NAME,...", "attention,ffn"),
    Flag("--trained-parameters", "training.trained_parameters", "COUNT", "20M"),
    Flag("--mode", "checkpoint.mode", "NAME"),
    Flag("--format", "checkpoint.format", "NAME"),
    Flag("--files-per-rank", "checkpoint.files_per_rank"),
    Flag("--optimizer-sharding", "checkpoint.optimizer_sharding", "NAME"),
    Flag("--interval", "checkpoint.interval_seconds", "TIME", "30min"),
    Flag("--interval-steps", "checkpoint.interval_steps"),
    Flag("--staging", "checkpoint.staging_bytes", "SIZE", "8GiB"),
    Flag("--cached-plans", "checkpoint.cached_plans", "YES/NO", "yes"),
    Flag("--restore", "checkpoint.restore", "NAME"),
    Flag("--compressed-weights", "checkpoint.reduction.compression.weights_fraction", "FRACTION", "0.72"),
    Flag("--compressed-master", "checkpoint.reduction.compression.master_fraction", "FRACTION", "0.82"),
    Flag("--compressed-moments", "checkpoint.reduction.compression.moments_fraction", "FRACTION", "0.82"),
    Flag("--compress-rate", "checkpoint.reduction.compression.compress_bytes_per_second", "RATE", "1.9GB/s"),
    Flag("--delta", "checkpoint.reduction.delta.fraction", "FRACTION", "0.1"),
    Flag("--delta-full-every", "checkpoint.reduction.delta.full_every", "N", "8"),
    Flag("--experts-per-save", "checkpoint.reduction.partial_experts.num_per_save"),
    Flag("--experts-full-every", "checkpoint.reduction.partial_experts.full_every", "N", "8"),
    Flag("--export-every", "checkpoint.export.every", "N", "10"),
    Flag("--export-dtype", "checkpoint.export.dtype", "NAME"),
    Flag("--export-by", "checkpoint.export.written_by", "NAME"),
    Flag("--stored-fraction", "checkpoint.stored_fraction", "FRACTION", "0.92"),
    Flag("--observed-bytes", "checkpoint.observed_bytes", "SIZE", "13.8TB"),
    Flag("--observed-write-bandwidth", "checkpoint.observed_write_bytes_per_second", "RATE", "273GB/s"),
    Flag("--storage-preset", "storage.preset", "NAME", "local-nvme-raid0-8x-gen5", alone=True),
    Flag("--io", "storage.io", "KIND"),
    Flag("--write-bandwidth", "storage.profile.write_bytes_per_second", "RATE", "273GB/s"),
    Flag("--read-bandwidth", "storage.profile.read_bytes_per_second", "RATE", "1TB/s"),
    Flag("--node-write-bandwidth", "storage.profile.node_write_bytes_per_second", "RATE", "8GB/s"),
    Flag("--node-read-bandwidth", "storage.profile.node_read_bytes_per_second", "RATE", "10GB/s"),
    Flag("--writer-write-bandwidth", "storage.profile.writer_write_bytes_per_second", "RATE", "1GB/s"),
    Flag("--process-write-bandwidth", "storage.profile.process_write_bytes_per_second", "RATE", "0.5GB/s"),
    Flag("--failures-per-node-day", "reliability.failures_per_node_day", "RATE", "0.0065"),
    Flag("--failures", "reliability.preset", "NAME", "llama-3-405b"),
    Flag("--mtbf", "reliability.mtbf_seconds", "TIME", "9h"),
    Flag("--detection", "reliability.detection_seconds", "TIME", "1min"),
    Flag("--relaunch", "reliability.relaunch_seconds", "TIME", "5min"),
    Flag("--restart", "reliability.restart_seconds", "TIME", "10min"),
    Flag("--strategy", "reliability.strategy", "NAME", "restart"),
    Flag("--spares", "reliability.spares.num", "N", "2"),
    Flag("--repair", "reliability.repair_seconds", "TIME", "4h"),
    Flag("--regroup", "reliability.shrink.regroup_seconds", "TIME", "3min"),
    Flag("--lost-step", "reliability.step_seconds", "TIME", "12s"),
    Flag("--keep-last", "retention.keep_last"),
    Flag("--disk", "retention.disk_bytes", "SIZE", "250GB"),
    Flag("--keep-free", "retention.free_fraction", "FRACTION", "10%"),
    Flag("--keep-weights-every", "retention.keep_weights_every"),
    Flag("--max-overhead", "targets.max_overhead_fraction", "FRACTION", "2%"),
    Flag("--max-stall", "targets.max_stall_seconds", "TIME", "60s"),
    Flag("--recovery", "targets.recovery_seconds", "TIME", "5min"),
    Flag("--min-goodput", "targets.min_goodput_fraction", "FRACTION", "0.9"),
)

FLAG_OF_FIELD = {flag.field: flag.name for flag in FLAGS if not flag.sets}

_THOUSANDS = re.compile(r"\s*\d{1,3}(,\d{3})+\s*")


def with_flags(document: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Set the given flags, by parameter name, over a scenario document.

    >>> with_flags({"model": {"num_parameters": 7}}, {"model": "gpt2", "data": "2,048"})
    {'model': {'preset': 'gpt2'}, 'parallelism': {'data': '2048'}}
    """
    typed = [(flag, value) for flag in FLAGS if (value := given.get(flag.parameter)) is not None]
    by_field = {flag.field: flag for flag, _ in typed}
    for flag, _ in typed:
        if by_field[flag.field] is not flag:
            other = by_field[flag.field].name
            raise InvalidInput.of(flag.name, f"sets the same field as {other}", value=None, remedy="give one of them")
    return with_flag_fields(document, {flag.field: flag.sets or as_typed(flag, value) for flag, value in typed})


def with_flag_fields(document: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Set fields over a scenario document, by dotted path.

    A field that describes a model or a storage alone replaces its block.
    """
    to_replace = {flag.field.partition(".")[0] for flag in FLAGS if flag.alone and flag.field in values}
    return with_fields({name: block for name, block in document.items() if name not in to_replace}, values)


_RANGE = re.compile(r"(?P<start>[^.]+(?:\.\d+)?[^.]*)\.\.(?P<stop>[^:]+):(?P<num>\d+)(?::(?P<scale>linear|log))?")
_BETWEEN_VALUES = re.compile(r"(?<!\d),|,(?!\d{3}(?:,\d{3})*(?:\.\d+)?\s*[a-z]+\s*(?:/\s*s|ps))", re.IGNORECASE)
"""A comma between values of a list: none in 1,000 GB/s, whose 1 alone would be a rate without a unit."""


def parse_varied_value(text: str, *, flag: str = "the value") -> Any:
    """Parse the value of a flag of a sweep: a list where it has commas, a range where it has two dots, or the text.

    Raises InvalidInput for a range without the number of its values.

    >>> parse_varied_value("1,2,4"), parse_varied_value("20GB/s..1TB/s:10:log"), parse_varied_value("13.8TB")
    (['1', '2', '4'], {'from': '20GB/s', 'to': '1TB/s', 'num': 10, 'scale': 'log'}, '13.8TB')
    >>> parse_varied_value("1,000GB/s"), parse_varied_value("20GB/s,1,000GB/s")
    ('1,000GB/s', ['20GB/s', '1,000GB/s'])
    """
    if match := _RANGE.fullmatch(text):
        scale = match["scale"] or "linear"
        return {"from": match["start"], "to": match["stop"], "num": int(match["num"]), "scale": scale}
    if ".." in text:
        ends, scale = text.partition(":")[0], ":log" if text.endswith(":log") else ""
        remedy = f"write {ends}:5{scale} for five values"
        raise InvalidInput.of(flag, "is a range without the number of its values", value=text, remedy=remedy)
    values = _BETWEEN_VALUES.split(text)
    return values if len(values) > 1 else text


_YES_NO = "YES/NO"
_TRUTH = TypeAdapter(bool)


def as_typed(flag: Flag, value: Any) -> Any:
    """Convert a typed text to what its field takes; each one of a list or a range."""
    if isinstance(value, list):
        return [as_typed(flag, each) for each in value]
    if isinstance(value, dict):
        return {name: as_typed(flag, each) for name, each in value.items()}
    if not isinstance(value, str):
        return value
    if flag.metavar == _YES_NO:
        with suppress(ValidationError):
            return _TRUTH.validate_python(value)
    return value.replace(",", "") if _THOUSANDS.fullmatch(value) else value


def by_flags(error: InvalidInput, given: Mapping[str, str], file: Path | None = None) -> InvalidInput:
    """Put problems into the words of the command line: `given` has the name of each flag by the field that it sets.

    >>> str(by_flags(InvalidInput.of("scenario.mtbf", "is 0", value=None, remedy="give it"), {"mtbf": "--mtbf"}))
    '--mtbf is 0: give it.'
    """
    line = CommandLine(file, given)
    return InvalidInput(map(line.problem, error.problems))


def by_names(error: InvalidInput, document: Mapping[str, Any]) -> InvalidInput:
    """Put the names of entries of a document's lists behind the fields that problems have within them.

    >>> found = InvalidInput.of("offers.0.tiers.0", "needs storage", value=None, remedy="give one")
    >>> str(by_names(found, {"offers": [{"name": "all flash", "tiers": [{}]}]}))
    "offers.0.tiers.0 ('all flash') needs storage: give one."
    """

    def field(path: str) -> str:
        parts = path.split(".")
        entries = [".".join(parts[: place + 1]) for place, part in enumerate(parts) if part.isdecimal()]
        names = [name for entry in entries if isinstance(name := value_at(document, f"{entry}.name"), str) and name]
        return f"{path} ({', '.join(map(shown, names))})" if names else path

    return InvalidInput(replace(problem, field=field(problem.field)) for problem in error.problems)


def by_options(error: InvalidInput, names: Mapping[str, str]) -> InvalidInput:
    """Put the names of a question's own flags, by the fields that they set, into the remedies of problems.

    >>> found = InvalidInput.of("odds", "must have a range", value=None, remedy="give one, or set odds.guesses")
    >>> str(by_options(found, {"odds.guesses": "--guesses"}))
    'odds must have a range: give one, or set --guesses.'
    """
    return InvalidInput(replace(problem, remedy=_rename(problem.remedy, names.get)) for problem in error.problems)


def flag_words(file: Path | None, given: Mapping[str, Any]) -> Callable[[str], str]:
    """Make the function that names flags in a sentence in place of their fields; `given` is by parameter name.

    >>> flag_words(None, {})("Give checkpoint.staging_bytes, or mode async.")
    'Give --staging, or mode async.'
    """
    return CommandLine(
        file, {flag.field: FLAG_OF_FIELD[flag.field] for flag in FLAGS if given.get(flag.parameter) is not None}
    ).sentence


@contextmanager
def naming_flags() -> Iterator[None]:
    """Let refusals of a checkpoint, read within the block, name flags in place of fields."""
    try:
        yield
    except UnreadableFile as error:
        raise UnreadableFile(flag_words(None, {})(str(error))) from None


@dataclass(frozen=True)
class CommandLine:
    """A command line that gives a scenario, and the names that fields have on it.

    Texts of sizing name a field by its dotted path, or by its name alone where they are about its block. On the command
    line it is called by its flag, unless it stands in the scenario's `file`. In an entry of a list that no flag sets, a
    name alone is one of the entry's own. `given`: names of flags by their fields.
    """

    file: Path | None
    given: Mapping[str, str]

    def sentence(self, text: str) -> str:
        """Put the names of flags into a text."""
        return _rename(text, self._flag)

    def problem(self, problem: Problem) -> Problem:
        """Put the names of flags into a problem. What the file says keeps the name of its field."""
        field = problem.field.removeprefix("scenario.")
        block = field.rpartition(".")[0]
        setting = next((name for name in self.given if f"{field}.".startswith(f"{name}.")), None)
        inside = any(name.startswith(f"{field}.") for name in self.given)
        beside = any(name.startswith(f"{block}.") for name in self.given)
        if setting is not None:
            subject = self.given[setting]
        elif problem.rule == REQUIRED and beside and not inside:
            subject = FLAG_OF_FIELD.get(field, problem.field)
        else:
            is_in_request = field != problem.field and "scenario" in self._document
            subject = problem.field if is_in_request else field
        names = alternatives_in(problem.rule) if setting is not None or inside else []
        typed = (FLAG_OF_FIELD.get(f"{field}.{name}", f"{field}.{name}") for name in names)
        rule = problem.rule.replace(", ".join(names), ", ".join(typed), 1)

        def name(word: str) -> str | None:
            if setting is None and "." not in word and any(part.isdecimal() for part in field.split(".")):
                return None
            return self._flag(word) or (self._flag_beside(word, field) if setting is not None or inside else None)

        remedy = _rename(problem.remedy, name)
        if self.file is not None and subject == "the scenario" and remedy != problem.remedy:
            remedy = f"{remedy}, or in {self.file.name} {problem.remedy.removeprefix('give ')}"
        whole = [f"{flag.name} {flag.metavar}" for flag in FLAGS if flag.alone and flag.field.startswith(f"{field}.")]
        if problem.rule == REQUIRED and whole:
            way = f"give {' or '.join(whole)}"
            remedy = way if self.file is None else f"{remedy}, or {way}"
        return replace(problem, field=subject, rule=_rename(rule, name), remedy=remedy)

    def _flag(self, word: str) -> str | None:
        """Find the flag of a field that is named by its path, or by a name that no other field has; None for a word."""
        if "." not in word and "_" not in word:
            return None
        field = _FIELD_OF_LAST_NAME.get(word, word)
        flag = self.given.get(field, _TYPED.get(field))
        if flag is None or field in self.given:
            return flag
        return None if value_at(self._scenario_in_file, field) is not None else flag

    def _flag_beside(self, word: str, field: str) -> str | None:
        """Find the flag of a field, or of one within a block, that a text about `field` names by its name alone.

        A plain word is taken for a field only where its flag is given: "data" is a degree, and a word.
        """
        if "_" in word:
            first = field.partition(".")[0]
            own = (flag for flag in FLAGS if flag.field.rpartition(".")[2] == word)
            if flag := next((flag for flag in own if flag.field.startswith(f"{first}.")), None):
                return flag.name
        blocks = (field.rpartition(".")[0] or field, field)
        inner = (name for name in self.given if any(f"{name}.".startswith(f"{block}.{word}.") for block in blocks))
        return next((self.given[name] for name in inner), None)

    @functools.cached_property
    def _document(self) -> Mapping[str, Any]:
        """Document in the file; empty where that is a pipe, which was read once, or a trainer's config file."""
        if self.file is None or not self.file.is_file():
            return {}
        with suppress(UnreadableFile):
            return read_document(self.file)
        return {}

    @property
    def _scenario_in_file(self) -> Mapping[str, Any]:
        scenario: Mapping[str, Any] = self._document.get("scenario", self._document)
        return scenario


def _rename(text: str, name: Callable[[str], str | None]) -> str:
    """Replace the words of a text, without the marks around them, by the names that they have, if any."""

    def rename_word(match: re.Match[str]) -> str:
        word = match[0]
        bare = word.strip(".,;:()'`")
        new_name = name(bare) if bare else None
        return word if new_name is None else word.replace(bare, new_name, 1)

    return re.sub(r"[^ \n]+", rename_word, text)


_TYPED = FLAG_OF_FIELD | {
    "model.huggingface_config": "--hf-config",
    "storage.calibration": "--storage",
    "model.tensors": "model.tensors (ckpt-size tensors --hf-config config.json --output model.json, or of the files "
    "ckpt-size tensors FOLDER --output model.json; then ckpt-size model.json)",
}
"""What is typed for a field: its flag, that of a file that holds it, or the verb that writes such a file."""
_LAST_NAMES = [field.rpartition(".")[2] for field in FLAG_OF_FIELD]
_FIELD_OF_LAST_NAME = {
    last: field
    for field, last in zip(FLAG_OF_FIELD, _LAST_NAMES, strict=True)
    if "_" in last and _LAST_NAMES.count(last) == 1
}
"""Fields by their own names, where these have an underscore, which no word has, and no other field's flag has them."""


def first_sentence(description: str) -> str:
    """Return the first sentence of a description, without its full stop.

    >>> first_sentence("Inner width (Radford et al. 2019). Default: 4 x hidden_size.")
    'Inner width (Radford et al. 2019)'
    """
    return re.split(r"\.(?: (?=[A-Z`])|$)", description, maxsplit=1)[0]
