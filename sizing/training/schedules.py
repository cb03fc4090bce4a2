"""Pipeline schedules: how many microbatches a stage holds at once, and how long it idles."""

from __future__ import annotations

from sizing.state.training import Schedule


def in_flight_microbatches(
    schedule: Schedule, *, stage: int, num_stages: int, num_chunks: int = 1, num_microbatches: int | None
) -> float:
    """Microbatches whose activations a stage holds at its max.

    gpipe: m. 1f1b: min(p - i, m). interleaved, in microbatches of the whole stage: min(2 (p - i - 1) + (v - 1) p + 1,
    v m) / v, on the first stage p (1 + (p - 1)/(p v)). Stage i of p, m microbatches (as many as it takes where None),
    v chunks per stage.
    Source: Narayanan et al. 2021, arXiv 2104.04473, section 2.2; Korthikanti et al. 2022, arXiv 2205.05198, section
    4.2.3; Megatron-LM, core/pipeline_parallel/schedules.py; `published/training_techniques.json`.

    >>> in_flight_microbatches("1f1b", stage=0, num_stages=8, num_microbatches=16)
    8.0
    >>> in_flight_microbatches("interleaved", stage=0, num_stages=8, num_chunks=2, num_microbatches=16)
    11.5
    """
    all_of_them = float("inf") if num_microbatches is None else float(num_microbatches)
    match schedule:
        case "gpipe":
            return all_of_them
        case "1f1b":
            return min(float(num_stages - stage), all_of_them)
        case "interleaved":
            chunks = 2 * (num_stages - stage - 1) + (num_chunks - 1) * num_stages + 1
            return min(chunks / num_chunks, all_of_them)


def bubble_fraction(*, num_stages: int, num_chunks: int = 1, num_microbatches: int) -> float:
    """Share of a step's time for which a stage idles: (p - 1)/(v m + p - 1).

    p stages, v chunks per stage, m microbatches; gpipe and 1f1b have v = 1. Of ideal time it is (p - 1)/(v m).
    Source: Narayanan et al. 2021, arXiv 2104.04473, section 2.2; `published/training_techniques.json`.

    >>> round(bubble_fraction(num_stages=8, num_microbatches=16), 4)
    0.3043
    """
    return (num_stages - 1) / (num_chunks * num_microbatches + num_stages - 1)
