"""Every formula of a pipeline schedule, held against a walk through all its passes."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing.errors import InvalidInput
from sizing.layout import Parallelism
from sizing.published import published
from sizing.state import Training
from sizing.state.training import Schedule
from sizing.training.execution import execution_of
from sizing.training.schedules import SCHEDULES
from sizing.training.schedules.one_way import max_held_chunks
from sizing.training.schedules.passes import Pass, PassKind, PassTimes, Slot, StepProgram, max_held
from sizing.training.schedules.schedule import PipelineSchedule, PipelineShape
from sizing.training.schedules.two_way import published_idle


def walked(chunks: list[int], *, stage: int, num_stages: int, num_microbatches: int) -> int:
    """The max over the passes of one stage, in the order of Megatron-LM, core/pipeline_parallel/schedules.py.

    Microbatches go through the chunks in groups of as many as stages, backwards through the last chunk first.
    """
    order = [
        (chunk, group + number)
        for group in range(0, num_microbatches, num_stages)
        for chunk in range(len(chunks))
        for number in range(num_stages)
    ]
    back = [(len(chunks) - 1 - chunk, microbatch) for chunk, microbatch in order]
    warm_up = min(2 * (num_stages - stage - 1) + (len(chunks) - 1) * num_stages, len(order))
    passes = order[:warm_up]
    open_passes = set(passes)
    most = held = sum(chunks[chunk] for chunk, _ in passes)
    for number, done in enumerate(back):
        if warm_up + number < len(order):
            begun = order[warm_up + number]
            open_passes.add(begun)
            held += chunks[begun[0]]
        most = max(most, held)
        open_passes.remove(done)
        held -= chunks[done[0]]
    assert not open_passes
    return most


@given(st.data())
def test_chunks_of_different_sizes_hold_what_a_walk_over_all_passes_finds(data: st.DataObject) -> None:
    num_stages = data.draw(st.integers(1, 6))
    stage = data.draw(st.integers(0, num_stages - 1))
    chunks = data.draw(st.lists(st.integers(0, 9), min_size=2, max_size=5))
    num_microbatches = num_stages * data.draw(st.integers(1, 5))
    expected = walked(chunks, stage=stage, num_stages=num_stages, num_microbatches=num_microbatches)
    found = max_held_chunks(chunks, stage=stage, num_stages=num_stages, num_microbatches=num_microbatches)
    assert found == expected
    most = walked(chunks, stage=stage, num_stages=num_stages, num_microbatches=6 * num_stages)
    assert max_held_chunks(chunks, stage=stage, num_stages=num_stages, num_microbatches=None) == most


@given(st.integers(1, 8), st.integers(2, 6), st.integers(1, 4))
def test_equal_chunks_hold_what_the_published_formula_says(num_stages: int, num_chunks: int, groups: int) -> None:
    degrees = Parallelism(pipeline=num_stages, virtual_pipeline=num_chunks)
    step = Training(sequence_length=8, micro_batch_size=1, global_batch_size=groups * num_stages)
    execution = execution_of(step, degrees)
    assert execution is not None
    for stage in range(num_stages):
        sizes, microbatches = [7.0] * num_chunks, groups * num_stages
        held = max_held_chunks(sizes, stage=stage, num_stages=num_stages, num_microbatches=microbatches)
        assert execution.held_bytes(stage, sizes) == pytest.approx(held)


def test_a_stage_whose_first_chunk_is_empty_holds_less_than_its_share_of_the_passes() -> None:
    """Sixteen stages, eight chunks: of 143 passes open on the first stage, 31 are of chunk 0 and 16 of each other."""
    step = Training(sequence_length=8, micro_batch_size=1, global_batch_size=64)
    execution = execution_of(step, Parallelism(pipeline=16, virtual_pipeline=8))
    assert execution is not None
    assert execution.held_bytes(0, [1] * 8) == 143
    assert execution.held_bytes(0, [0, *[1] * 7]) == 143 - 31


TIMES = [
    PassTimes(),
    PassTimes(2, 3, 1),
    PassTimes(4, 3, 2),
    PassTimes(1, 1, 2),
    PassTimes(1, 0.5, 0.5),
    PassTimes(3, 1, 1),
    PassTimes(9, 2, 7),
    PassTimes(1, 1, 1, overlapped=2.5),
]
"""Forward passes longer and shorter than backward ones, weight gradients shorter and longer than the rest."""


def pipelines(schedule: PipelineSchedule, *, max_stages: int = 6) -> list[PipelineShape]:
    """The small pipelines that a schedule can run."""
    found = []
    for p in range(1, max_stages + 1):
        for v in (1, 2, 3):
            for m in sorted({1, 2, 3, p, 2 * p - 1, 2 * p, 3 * p, 5 * p}):
                try:
                    schedule.check(PipelineShape(p, m, v))
                except InvalidInput:
                    continue
                found.append(PipelineShape(p, m, v))
    return found


def test_every_schedule_has_its_rules() -> None:
    assert set(SCHEDULES) == set(get_args(Schedule))


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=lambda each: each.name)
def test_every_microbatch_passes_every_chunk_once_forward_and_once_back(schedule: PipelineSchedule) -> None:
    tried = pipelines(schedule)
    assert len(tried) >= 3
    for pipeline in tried:
        passes = [
            each for stage in range(pipeline.num_stages) for slot in schedule.order(pipeline, stage) for each in slot
        ]
        works: dict[tuple[int, int], list[str]] = {}
        for work, chunk, number in passes:
            works.setdefault((chunk, number), []).append(work.value)
        m, chunks = pipeline.num_microbatches or 0, pipeline.num_stages * pipeline.num_chunks
        assert works.keys() == {(chunk, number) for chunk in range(chunks) for number in range(m)}
        wanted = (["F", "B"], ["F", "I", "W"]) if schedule.splits_backward else (["F", "B"],)
        assert all(found in wanted for found in works.values())


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=lambda each: each.name)
def test_a_device_runs_the_chunks_that_it_has(schedule: PipelineSchedule) -> None:
    for pipeline in pipelines(schedule):
        for stage in range(pipeline.num_stages):
            ran = {each.chunk for slot in schedule.order(pipeline, stage) for each in slot}
            assert ran == set(schedule.chunks_on(pipeline, stage))


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=lambda each: each.name)
def test_a_stage_holds_what_the_walk_finds(schedule: PipelineSchedule) -> None:
    for pipeline in pipelines(schedule):
        for stage in range(pipeline.num_stages):
            walked_through = max_held(schedule.order(pipeline, stage))
            assert schedule.held_passes(pipeline, stage) == walked_through, (pipeline, stage)
            sizes = [5.0] * len(schedule.chunks_on(pipeline, stage))
            assert schedule.held_bytes(pipeline, stage, sizes) == 5 * walked_through


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=lambda each: each.name)
def test_without_a_batch_a_stage_holds_what_it_does_with_many_microbatches(schedule: PipelineSchedule) -> None:
    for pipeline in pipelines(schedule):
        try:
            schedule.check(open_end := PipelineShape(pipeline.num_stages, None, pipeline.num_chunks))
        except InvalidInput:
            assert schedule.name == "gpipe"
            continue
        many = PipelineShape(pipeline.num_stages, 12 * pipeline.num_stages, pipeline.num_chunks)
        for stage in range(pipeline.num_stages):
            assert schedule.held_passes(open_end, stage) == max_held(schedule.order(many, stage))
            sizes = [2.0**number for number, _ in enumerate(schedule.chunks_on(many, stage))]
            assert schedule.held_bytes(open_end, stage, sizes) == schedule.held_bytes(many, stage, sizes)


@pytest.mark.parametrize("times", TIMES, ids=str)
@pytest.mark.parametrize("schedule", [each for each in SCHEDULES.values() if each.flushes], ids=lambda each: each.name)
def test_a_stage_idles_as_long_as_the_simulation_finds(schedule: PipelineSchedule, times: PassTimes) -> None:
    for pipeline in pipelines(schedule):
        found = schedule.simulated_idle(pipeline, times)
        assert schedule.idle(pipeline, times) == pytest.approx(found, abs=1e-9), pipeline


@pytest.mark.parametrize("times", TIMES, ids=str)
@pytest.mark.parametrize(
    "schedule", [each for each in SCHEDULES.values() if not each.flushes], ids=lambda each: each.name
)
def test_without_a_flush_a_full_pipeline_idles_no_more(schedule: PipelineSchedule, times: PassTimes) -> None:
    """What it waits while it fills is all that it ever waits; and a drain is worth a fill and a run-down."""
    for p in (2, 3, 5):
        short, long = PipelineShape(p, 3 * p), PipelineShape(p, 9 * p)
        assert schedule.idle(short, times) == 0
        idle = [schedule.simulated_idle(pipeline, times) for pipeline in (short, long)]
        assert idle[0] == pytest.approx(idle[1])
        assert schedule.drain_time(short, times) == pytest.approx(idle[0])


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=lambda each: each.name)
def test_the_bubble_goes_to_zero_with_microbatches(schedule: PipelineSchedule) -> None:
    v = {"interleaved": 3, "zb-v": 2}.get(schedule.name, 1)
    times = PassTimes(1, 0.5, 0.5) if schedule.name == "chimera" else PassTimes()
    bubbles = [schedule.bubble_fraction(PipelineShape(6, m, v), times) for m in (12, 120, 12_000, 12_000_000)]
    assert bubbles == sorted(bubbles, reverse=True)
    assert bubbles[-1] < 1e-6


def test_chimera_s_bubble_stays_where_backward_passes_take_longer() -> None:
    """Units of p microbatches do not close up then: (p - 2)/p of a gap of B - F stays for each."""
    chimera, twice = SCHEDULES["chimera"], PassTimes(1, 1, 1)
    fraction = [chimera.bubble_fraction(PipelineShape(8, 8 * units)) for units in (1, 100)]
    assert fraction[0] == pytest.approx((8 - 2) / (3 / 2 * 8 + 8 - 2))
    assert fraction[1] > 0.19
    simulated_idle = chimera.simulated_idle(PipelineShape(8, 80), twice)
    assert simulated_idle == pytest.approx(chimera.idle(PipelineShape(8, 80), twice))


@pytest.mark.parametrize(
    ("times", "least", "most"), [(PassTimes(2, 3, 1), 0.85, 0.91), (PassTimes(4, 3, 2), 1.12, 1.13)], ids=str
)
def test_dualpipe_s_published_bubble_is_exact_for_equal_passes_alone(
    times: PassTimes, least: float, most: float
) -> None:
    dualpipe = SCHEDULES["dualpipe"]
    for p in (4, 6, 8):
        pipeline = PipelineShape(p, 4 * p)
        assert dualpipe.simulated_idle(pipeline, PassTimes()) == published_idle(pipeline, PassTimes())
        assert least < dualpipe.simulated_idle(pipeline, times) / published_idle(pipeline, times) < most


ROWS = {row["schedule"]: row for row in published("training_techniques")["pipeline_schedules"]}


def test_bubbles_and_microbatches_in_flight_are_as_their_papers_say() -> None:
    p, m = 8, 32
    pipeline = PipelineShape(p, m)
    flush = SCHEDULES["1f1b"].idle(pipeline, PassTimes())
    assert SCHEDULES["zb-h1"].idle(pipeline, PassTimes()) == flush / 3
    assert SCHEDULES["zb-h2"].idle(pipeline, PassTimes()) == 0
    assert SCHEDULES["zb-v"].idle(PipelineShape(p, m, 2), PassTimes()) == 0
    equal = PassTimes(forward=1, input_gradient=0.5, weight_gradient=0.5)
    assert SCHEDULES["chimera"].bubble_fraction(pipeline, equal) == pytest.approx((p - 2) / (2 * m + p - 2))
    assert ROWS["chimera"]["bubble"] == "(p-2)/(2 m + p - 2)"
    in_flight = {
        name: [SCHEDULES[name].in_flight_microbatches(pipeline, stage) for stage in range(p)]
        for name in ("pipedream", "pipedream-2bw", "pipemare", "chimera", "zb-h1", "zb-h2", "dualpipe")
    }
    for name in ("pipedream", "pipedream-2bw", "pipemare", "zb-h1"):
        assert max(in_flight[name]) == p, ROWS[name]["in_flight"]
    assert (min(in_flight["chimera"]), max(in_flight["chimera"])) == (p / 2 + 1, p)
    assert max(in_flight["zb-h2"]) == 2 * p - 1, "the catalog rounds to 2 p"
    assert set(in_flight["dualpipe"]) == {p + 1}
    assert max(SCHEDULES["zb-v"].in_flight_microbatches(PipelineShape(p, m, 2), stage) for stage in range(p)) == p


def test_weight_versions_are_as_their_papers_say() -> None:
    pipeline = PipelineShape(8, 32)
    versions = {name: [each.weight_versions(pipeline, i) for i in range(8)] for name, each in SCHEDULES.items()}
    assert versions.pop("pipedream") == [8 - i for i in range(8)]
    assert versions.pop("pipedream-2bw") == [2] * 8
    assert all(found == [1] * 8 for found in versions.values())
    assert {name for name, each in SCHEDULES.items() if each.moments} == {"pipemare"}
    assert {name for name, each in SCHEDULES.items() if each.is_two_way} == {"chimera", "dualpipe"}


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=lambda each: each.name)
def test_versions_suffice_for_the_microbatches_in_flight(schedule: PipelineSchedule) -> None:
    """Walk with an update after every group of microbatches: the backward pass must find the weights of its forward."""
    group = {"pipedream": 1, "pipedream-2bw": 4}.get(schedule.name)
    if group is None:
        return
    p, m = 4, 24
    for stage in range(p):
        done, begun_with, kept = 0, {}, 0
        for (each,) in schedule.order(PipelineShape(p, m), stage):
            if each.kind is PassKind.FORWARD:
                # A microbatch takes the newest version that all before it can still have been computed with.
                begun_with[each.microbatch] = done // group
            else:
                kept = max(kept, done // group - begun_with.pop(each.microbatch) + 1)
                done += 1
        assert kept <= schedule.weight_versions(PipelineShape(p, m), stage)
        if schedule.name == "pipedream":
            assert kept == schedule.weight_versions(PipelineShape(p, m), stage)


def test_a_checkpoint_holds_one_version_after_a_flush_or_a_drain() -> None:
    pipeline = PipelineShape(4, 8)
    for each in SCHEDULES.values():
        assert each.consistent_versions(pipeline, 0, drained=True) == 1
        assert (each.consistent_versions(pipeline, 0, drained=False) > 1) == (each.name.startswith("pipedream"))


def test_passes_that_wait_for_each_other_are_told() -> None:
    forward = Pass(PassKind.FORWARD, 0, 0)
    with pytest.raises(ValueError, match="wait for each other"):
        StepProgram.of([[(forward._replace(chunk=1),), (forward,)]])


def test_sends_between_stages_take_their_time() -> None:
    """A send forward and one back for each stage but the last. Of each later microbatch the last stage waits for both:
    it gives the stage before a gradient, and gets a microbatch that this begins when it has computed that."""
    one = SCHEDULES["1f1b"]
    times = [one.device_times(PipelineShape(4, m), PassTimes().slot_time, transfer=0.5).seconds for m in (1, 8, 9)]
    assert times[0] == 4 * 3 + 6 * 0.5
    assert times[2] - times[1] == 3 + 2 * 0.5


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=lambda each: each.name)
def test_many_microbatches_take_as_long_as_all_of_them_simulated(schedule: PipelineSchedule) -> None:
    """Unlike stages too: what is beyond the first rounds takes as long as the last of them."""
    v = {"interleaved": 3, "zb-v": 2}.get(schedule.name, 1)
    p, kinds = 4, {"F": 2.0, "I": 1.5, "W": 2.5, "B": 4.0}

    def slot_time(slot: Slot) -> float:
        return sum(kinds[each.kind.value] * (1 + each.chunk % 3) for each in slot)

    shape = PipelineShape(p, 15 * p, v)
    spans = StepProgram.of([schedule.order(shape, stage) for stage in range(p)]).walk(slot_time, transfer=0.25)
    found = schedule.device_times(shape, slot_time, transfer=0.25)
    assert found.busy == pytest.approx([each.busy for each in spans])
    if schedule.flushes:
        assert found.seconds == pytest.approx(max(each.end - each.begin for each in spans))
    else:
        assert max(found.busy) <= found.seconds < max(each.end for each in spans)
