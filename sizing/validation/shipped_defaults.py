"""Comparisons of the project's defaults with the defaults that frameworks ship."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sizing.published import published
from sizing.report import answer
from sizing.validation.comparison import EXACT, Comparison, Source

_SHIPPED = Source("tool", "Defaults that frameworks ship, read from their source code (1 is yes, 0 is no)")

_NUM_GPUS = 16
"""Two nodes: enough that writers of one node, of one replica and of all ranks are different numbers."""


def shipped_defaults() -> Iterator[Comparison]:
    """Compare format, writers, files, optimizer, mode and number of kept checkpoints."""
    report = answer({"model": {"preset": "llama-3.1-8b"}, "parallelism": {"data": _NUM_GPUS}})
    left_open = {row.field: row.value for row in report.assumptions}
    megatron = "Megatron-LM"
    rows = (
        ("torch_dist", report.checkpoint.format.replace("-", "_"), _default(megatron, "ckpt_format")),
        (True, report.layout.num_writers == _NUM_GPUS, _default(megatron, "ckpt_fully_parallel_save")),
        (True, left_open["training.distributed_optimizer"], _default(megatron, "use_distributed_optimizer")),
        (True, left_open["checkpoint.mode"] == "async", _default(megatron, "async_save")),
    )
    facts = ("format torch-dist", "every rank saves", "distributed optimizer", "asynchronous saves")
    for fact, (yes, taken, shipped) in zip(facts, rows, strict=True):
        yield _SHIPPED.compare(f"{megatron}: {fact}", int(taken == yes), int(shipped == yes), within=EXACT)
    threads = _default(megatron, "thread_count of the torch_dist save strategy")
    files = report.checkpoint.num_rank_files / report.layout.num_writers
    yield _SHIPPED.compare(f"{megatron}: files that a rank writes", files, threads, within=EXACT)
    of_torchtitan = answer(
        {
            "model": {"preset": "llama-3.1-8b"},
            "training": {"framework": "torchtitan"},
            "parallelism": {"data": _NUM_GPUS},
        }
    )
    (kept,) = (row.value for row in of_torchtitan.assumptions if row.field == "retention.keep_last")
    keeps = _default("torchtitan", "checkpoint.keep_latest_k")
    yield _SHIPPED.compare("torchtitan: newest checkpoints kept", int(str(kept)), keeps, within=EXACT)
    yield _SHIPPED.list_unpredicted(
        "Megatron-LM: newest checkpoints kept (-1 is all)",
        _default("Megatron-LM", "most_recent_k"),
        because="all stay, so the capacity grows with the run: retention.keep_last says how many are kept",
    )


def _default(framework: str, setting: str) -> Any:
    rows = published("framework_defaults")["rows"]
    return next(row["default"] for row in rows if (row["framework"], row["setting"]) == (framework, setting))
