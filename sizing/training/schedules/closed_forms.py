"""Formulas that several pipeline schedules share, or that are long: idle time with a flush, chunks that are held."""

from __future__ import annotations

from collections.abc import Sequence

from sizing.training.schedules.base import Pipeline
from sizing.training.schedules.passes import PassTimes


def max_held_chunks(chunks: Sequence[float], *, stage: int, num_stages: int, num_microbatches: int | None) -> float:
    """Max over a step of what a stage holds of chunks of different sizes, with schedule interleaved.

    max over k of sum_c s_c (F(c, w + k) - F(v - 1 - c, k)): w = 2 (p - i - 1) + (v - 1) p + 1 forwards come before the
    first backward, then one each; of n forwards F(c, n) = p floor(n / (p v)) + min(max(n mod (p v) - c p, 0), p) are of
    chunk c, as microbatches go through the chunks in groups of p, and backwards begin with the last chunk. s_c is what
    one microbatch leaves in chunk c of stage i; the sum is linear in k between the ends of groups.
    Source: Narayanan et al. 2021, arXiv 2104.04473, section 2.2; Megatron-LM, core/pipeline_parallel/schedules.py.

    >>> max_held_chunks([1, 1], stage=0, num_stages=8, num_microbatches=16) == 11.5 * 2
    True
    >>> max_held_chunks([0, 1], stage=0, num_stages=8, num_microbatches=16)
    8
    """
    p, period = num_stages, num_stages * len(chunks)
    before = 2 * (p - stage - 1) + period - p + 1
    past = before + period if num_microbatches is None else num_microbatches * len(chunks)
    steady = max(0, min(period, past - before))
    ends = {0, steady, *range(0, steady, p), *range(-before % p, steady, p)}
    return max(_held_after(k, min(before + k, past), chunks, p) for k in ends)


def _held_after(num_backwards: int, num_forwards: int, chunks: Sequence[float], num_stages: int) -> float:
    def passed(chunk: int, number: int) -> int:
        rounds, left = divmod(number, num_stages * len(chunks))
        return num_stages * rounds + min(max(left - chunk * num_stages, 0), num_stages)

    last = len(chunks) - 1
    return sum(
        size * (passed(chunk, num_forwards) - passed(last - chunk, num_backwards)) for chunk, size in enumerate(chunks)
    )


def bubble_fraction(*, num_stages: int, num_chunks: int = 1, num_microbatches: int) -> float:
    """Share of a step's time for which a stage idles: (p - 1)/(v m + p - 1).

    p stages, v chunks per stage, m microbatches; gpipe and 1f1b have v = 1. Of ideal time it is (p - 1)/(v m).
    Source: Narayanan et al. 2021, arXiv 2104.04473, section 2.2; `published/training_techniques.json`.

    >>> round(bubble_fraction(num_stages=8, num_microbatches=16), 4)
    0.3043
    """
    return (num_stages - 1) / (num_chunks * num_microbatches + num_stages - 1)


def flush_idle(pipeline: Pipeline, times: PassTimes) -> float:
    """Time that a flush costs each step: (p - 1)(F + B), forward and backward pass of a stage.

    Source: Huang et al. 2019, arXiv 1811.06965, section 2.3; Narayanan et al. 2021, arXiv 2104.04473, section 2.2.1.

    >>> flush_idle(Pipeline(8, 16), PassTimes(forward=1, input_gradient=1, weight_gradient=1))
    21
    """
    return (pipeline.num_stages - 1) * times.total
