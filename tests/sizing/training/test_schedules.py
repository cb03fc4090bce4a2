"""What a stage holds under the interleaved schedule, walked through one pass after the other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing.layout import Parallelism
from sizing.state import Training
from sizing.training.execution import execution_of
from sizing.training.schedules import max_held_chunks


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
