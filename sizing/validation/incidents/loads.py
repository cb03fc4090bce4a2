"""Loads of checkpoints and of weights."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.report import answer
from sizing.scenario import scenario_from
from sizing.validation.comparison import Comparison
from sizing.validation.incidents.book import GIB, MEASURED, REPORTED, held, measured, reported, sharded

_SCATTERED = (
    "the loader reads every tensor by small slices of a mapped file: the model takes reads for large and sequential"
)


def loads() -> Iterator[Comparison]:
    """What loads took, from the rate that the same report gives, or that its smaller configuration shows."""
    yield from _lustre()
    yield from _every_node()
    yield _weka()
    yield _full_state()


def _lustre() -> Iterator[Comparison]:
    """Weights of 206 GiB by one node, by large sequential reads and by the loader's own."""
    row = measured("transformers_lustre")
    profile = {
        "node_read_bytes_per_second": row["node_gib_per_second"] * GIB,
        "writer_read_bytes_per_second": row["stream_gib_per_second"] * GIB,
    }
    report = sharded(row["gib"] * GIB, num_nodes=row["nodes"], gpus_per_node=row["gpus"], profile=profile)
    seconds = report.restore.seconds or 0.0
    for fact, key in (("prefetched by sequential reads", "prefetch_seconds"), ("loaded", "load_seconds")):
        yield held(MEASURED, f"transformers: 206 GiB {fact} by 8 GPUs, seconds", seconds, row[key], lacks=_SCATTERED)


def _every_node() -> Iterator[Comparison]:
    """Weights that every node reads whole, at the rate that one node reached."""
    alone, *more = measured("transformers_nodes")["rows"]
    profile = {"node_read_bytes_per_second": alone["gib"] * GIB / alone["load_seconds"]}
    for row in more:
        report = sharded(row["gib"] * GIB, num_nodes=row["nodes"], gpus_per_node=8, profile=profile, shard_group=8)
        yield held(
            MEASURED,
            f"transformers: {row['model']} loaded by {row['nodes']} nodes at the rate of one, seconds",
            report.restore.seconds or 0.0,
            row["load_seconds"],
            lacks=f"what the file system gives to all nodes together is not published, and {_SCATTERED}",
        )


def _weka() -> Comparison:
    row = reported("transformers-48227")
    rate, _ = row["sequential_read_gib_per_s"]
    profile = {"writer_read_bytes_per_second": rate * GIB}
    report = sharded(row["model_gb"] * 1e9, num_nodes=1, gpus_per_node=row["gpus"], profile=profile)
    fact = "transformers-48227: 57 GB loaded by 8 GPUs, seconds"
    return held(REPORTED, fact, report.restore.seconds or 0.0, row["seconds_before"], lacks=_SCATTERED)


def _full_state() -> Comparison:
    """One rank reads the weights and sends them on: Llama 3 70B at the rate of 8B."""
    row = reported("lightning-19870")
    small, large = (
        answer(scenario_from({"model": {"preset": name}})).model.num_parameters
        for name in ("llama-3-8b", "llama-3-70b")
    )
    profile = {"read_bytes_per_second": 2 * small / row["load_seconds_llama3_8b"][-1]}
    report = sharded(2 * large, num_nodes=1, gpus_per_node=8, profile=profile, format="full")
    return held(
        REPORTED,
        "lightning-19870: Llama 3 70B loaded at the rate of its 8B, seconds",
        report.restore.read_seconds or 0.0,
        row["load_seconds_llama3_70b_after"],
        lacks="a load has a fixed time as well, which one size does not show: 8B is mostly that",
    )
