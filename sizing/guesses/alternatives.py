"""Alternatives of choices that nobody made, each with its layout."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass

from pydantic import JsonValue

from sizing.errors import InvalidInput
from sizing.field_paths import with_field
from sizing.guesses.fields import choices_of, field_at
from sizing.layout.formats import Mode
from sizing.ranges import PlausibleChoice, plausible_choices
from sizing.run.read_plan import RestoreStrategy
from sizing.run.workload import CheckpointWorkload
from sizing.scenario import Scenario, scenario_from
from sizing.sized_layout import SizedLayout, workload_anew

MAX_KINDS_OF_RANKS = 64
"""Max kinds of ranks of a layout whose alternatives are answered. Each alternative is laid out anew, which takes 20 us
for each kind of ranks beside half a millisecond, and 20 alternatives are to take 20 ms or so."""

_AFTER_LAYOUT = {"storage", "reliability", "retention", "targets", "costs"}
_CHECKPOINT_AFTER_LAYOUT = {"interval_seconds", "restore", "observed_write_bytes_per_second", "staging_bytes"}


@dataclass(frozen=True, slots=True)
class Alternative:
    """Field of a scenario at another value, with the save mode, restore strategy and workload that follow.

    `detection_seconds`: where a framework would decide another detection, as nobody stated one.
    """

    field: str
    value: JsonValue
    mode: Mode
    strategy: RestoreStrategy
    workload: CheckpointWorkload
    detection_seconds: float | None


def alternatives_of(
    scenario: Scenario,
    layout: SizedLayout,
    others: Iterable[tuple[str, JsonValue]],
    *,
    progress: Callable[[float], None] | None = None,
) -> Iterator[Alternative]:
    """Yield an alternative for each field at another value, where the scenario then has an answer.

    `progress` is told which fraction is done, where the layout of the scenario counts as much as each that is laid
    out anew: of a large layout they take nearly all of the time of an answer.
    """
    failures, profile = scenario.reliability, scenario.run_inputs.profile
    own_layout = _layout_json(scenario)
    variants = [
        (field, value, variant, _layout_json(variant) != own_layout)
        for field, value, variant in _vary(scenario, others)
    ]
    num_layouts, num_done = 1 + sum(needs_layout for *_, needs_layout in variants), 1
    for field, value, variant, needs_layout in variants:
        if progress is not None:
            progress(num_done / num_layouts)
        num_done += needs_layout
        try:
            workload = workload_anew(variant, profile) if needs_layout else layout.workload
        except InvalidInput:
            continue
        detection = variant.reliability.detection_seconds if variant.reliability else None
        is_other = failures is not None and detection != failures.detection_seconds
        mode, strategy = variant.checkpoint.mode, variant.checkpoint.restore
        yield Alternative(field, value, mode, strategy, workload, detection if is_other else None)
    if progress is not None:
        progress(1.0)


def _vary(scenario: Scenario, others: Iterable[tuple[str, JsonValue]]) -> Iterator[tuple[str, JsonValue, Scenario]]:
    """Yield the scenario with each field at another value, where it breaks no rule."""
    given = scenario.model_dump(exclude_unset=True, exclude=_AFTER_LAYOUT)
    failures = scenario.reliability
    if failures is not None and "detection_seconds" not in failures.model_fields_set:
        given["reliability"] = failures.model_dump(exclude_unset=True)  # a framework has its own default
    document = {name: block for name, block in given.items() if name != "model"}
    for field, value in others:
        try:
            if field.startswith("model."):
                yield field, value, scenario_from(with_field(given, field, value))
            else:  # a model may be a list of thousands of tensors, which are valid already
                yield field, value, scenario_from(with_field(document, field, value) | {"model": scenario.model})
        except InvalidInput:
            continue


def values_of(choice: PlausibleChoice, assumed: JsonValue = None) -> tuple[JsonValue, ...]:
    """Return the plausible values of a choice, some beside what is assumed.

    >>> values_of(PlausibleChoice(field="a", among=(0.5, 1.5), of_assumed=True, source="b"), 0.4)
    (0.2, 0.6)
    """
    if choice.of_assumed and isinstance(assumed, float):
        return tuple(float(f"{assumed * each:.3g}") for each in choice.among if isinstance(each, int | float))
    return choice.among or tuple(choices_of(field_at(choice.field).annotation))


def choices_among(fields: Container[str]) -> list[PlausibleChoice]:
    """List the choices among these fields."""
    return [choice for name, choice in plausible_choices().items() if name in fields]


def _layout_json(scenario: Scenario) -> str:
    """Return the part of a scenario that decides its layout, as JSON."""
    return scenario.model_dump_json(
        exclude={**dict.fromkeys(_AFTER_LAYOUT, True), "checkpoint": _CHECKPOINT_AFTER_LAYOUT}
    )
