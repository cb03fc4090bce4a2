"""Error of a step time: how far measured runs were from their predictions, by what they have in common with a step."""

from __future__ import annotations

import functools
import math
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, NamedTuple

MISSED_SHARE = 0.1
"""Share of measured runs that may lie outside the range that is stated, half on each side."""

MIN_PUBLISHERS = 2
"""Publishers of a group of runs, at least: those of one share an error, such as how hot their GPUs are."""

MIN_RUNS = 2
"""Measured runs on a GPU, at least, whose errors stand for that of a guess of its rates: one may be an exception."""


class StepFacts(NamedTuple):
    """What a step has in common with others: GPU, precision, experts or none, framework, tokens, context ranks."""

    gpu: str
    precision: str
    has_experts: bool
    framework: str
    sequence_length: int
    num_context: int


class ComparedRun(NamedTuple):
    """Measured run: who published it, its facts, and measured over predicted seconds."""

    publisher: str
    facts: StepFacts
    ratio: float


class ErrorGroup(NamedTuple):
    """Measured runs with facts in common: range of measured over predicted seconds, and how many there are."""

    low: float
    high: float
    num_runs: int
    num_publishers: int

    @classmethod
    def of(cls, runs: Iterable[ComparedRun]) -> ErrorGroup:
        """Return the range that leaves out MISSED_SHARE of as many runs as there are and one more.

        >>> facts = StepFacts("h100", "bf16-mixed", False, "megatron", 4096, 1)
        >>> ErrorGroup.of(ComparedRun("a", facts, ratio) for ratio in (1.2, 0.9, 1.0))
        ErrorGroup(low=0.9, high=1.2, num_runs=3, num_publishers=1)
        """
        found = list(runs)
        ratios, left_out = sorted(each.ratio for each in found), math.floor((len(found) + 1) * MISSED_SHARE / 2)
        edge = max(0, left_out - 1)
        return cls(ratios[edge], ratios[-1 - edge], len(ratios), len({each.publisher for each in found}))

    @classmethod
    def of_extremes(cls, runs: Iterable[ComparedRun]) -> ErrorGroup:
        """Return the range of all runs."""
        found = list(runs)
        ratios = [each.ratio for each in found]
        return cls(min(ratios), max(ratios), len(found), len({each.publisher for each in found}))


@dataclass(frozen=True, slots=True)
class StepErrors:
    """Errors of step times: by experts and GPU, and by experts alone; and the facts that were compared.

    `extremes`: range of every run with or without experts, none left out.
    """

    by_gpu: Mapping[tuple[bool, str], ErrorGroup]
    by_kind: Mapping[bool, ErrorGroup]
    extremes: Mapping[bool, ErrorGroup]
    compared: Mapping[str, Any]

    @classmethod
    def of(cls, runs: Iterable[ComparedRun]) -> StepErrors:
        """Group the runs."""
        found = list(runs)
        by_gpu: dict[tuple[bool, str], list[ComparedRun]] = defaultdict(list)
        by_kind: dict[bool, list[ComparedRun]] = defaultdict(list)
        for each in found:
            by_gpu[each.facts.has_experts, each.facts.gpu].append(each)
            by_kind[each.facts.has_experts].append(each)
        return cls(
            {key: ErrorGroup.of(each) for key, each in by_gpu.items()},
            {key: ErrorGroup.of(each) for key, each in by_kind.items()},
            {key: ErrorGroup.of_extremes(each) for key, each in by_kind.items()},
            {
                "precisions": sorted({f"{each.facts.gpu} {each.facts.precision}" for each in found}),
                "frameworks": sorted({each.facts.framework for each in found}),
                "gpus": sorted({each.facts.gpu for each in found}),
                "with_experts": sorted({each.facts.has_experts for each in found}),
                "max_sequence_length": max(each.facts.sequence_length for each in found),
                "max_context": max(each.facts.num_context for each in found),
            },
        )

    def list_outside(self, facts: StepFacts) -> Iterator[str]:
        """List in words what of a step no measured run had."""
        compared = self.compared
        if facts.gpu not in compared["gpus"]:
            yield f"GPU {facts.gpu}"
        elif f"{facts.gpu} {facts.precision}" not in compared["precisions"]:
            yield f"precision {facts.precision} on {facts.gpu}"
        if facts.framework not in compared["frameworks"]:
            yield f"framework {facts.framework}"
        if facts.has_experts not in compared["with_experts"]:
            yield "experts" if facts.has_experts else "no experts"
        if facts.sequence_length > compared["max_sequence_length"]:
            yield f"sequences of {facts.sequence_length:,} tokens"
        if facts.num_context > compared["max_context"]:
            yield f"context {facts.num_context}"

    def num_runs_on(self, gpu: str) -> int:
        """Count the measured runs on a GPU."""
        return sum(group.num_runs for (_, name), group in self.by_gpu.items() if name == gpu)

    def group(self, facts: StepFacts) -> ErrorGroup:
        """Return the runs that say most of a step: of its GPU where several publishers measured it, else of its kind.

        A step with something that no run had gets the range of all runs with or without experts, none left out.
        """
        if any(self.list_outside(facts)):
            return self.extremes[facts.has_experts]
        of_gpu = self.by_gpu.get((facts.has_experts, facts.gpu))
        if of_gpu is not None and of_gpu.num_publishers >= MIN_PUBLISHERS:
            return of_gpu
        return self.by_kind[facts.has_experts]

    def as_toml(self) -> str:
        """Write the errors as `step_errors.toml`, which `step_errors` reads."""
        lines = ["# Measured over predicted seconds of the step times that ckpt-size validate compares; written by"]
        lines.append("# scripts/step-errors, and held by a test.")
        for name, group in self._named_groups():
            lines += [f"\n[{name}]", *(f"{field} = {_toml_number(value)}" for field, value in group._asdict().items())]
        lines += ["\n[compared]", *(f"{name} = {_toml_value(value)}" for name, value in self.compared.items())]
        return "\n".join(lines) + "\n"

    def _named_groups(self) -> Iterator[tuple[str, ErrorGroup]]:
        for (has_experts, gpu), group in sorted(self.by_gpu.items()):
            yield f"{_KINDS[has_experts]}.{gpu}", group
        for has_experts, group in sorted(self.by_kind.items()):
            yield f"{_KINDS[has_experts]}.all", group
        for has_experts, group in sorted(self.extremes.items()):
            yield f"{_KINDS[has_experts]}.extremes", group


_KINDS = {False: "dense", True: "experts"}


def _toml_number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.3f}"


def _toml_value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


@functools.cache
def step_errors() -> StepErrors:
    """Read the errors of all measured runs."""
    stored = tomllib.loads(resources.files(__package__).joinpath("step_errors.toml").read_text(encoding="utf-8"))
    groups = {
        (has_experts, name): ErrorGroup(**group)
        for has_experts, kind in _KINDS.items()
        for name, group in stored[kind].items()
    }
    return StepErrors(
        by_gpu={key: group for key, group in groups.items() if key[1] not in ("all", "extremes")},
        by_kind={has_experts: group for (has_experts, name), group in groups.items() if name == "all"},
        extremes={has_experts: group for (has_experts, name), group in groups.items() if name == "extremes"},
        compared=stored["compared"],
    )
