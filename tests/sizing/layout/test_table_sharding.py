"""Embedding tables of a recommender lie by rows on every rank, whole on one, or in blocks of columns."""

import tracemalloc
from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.report import SizingReport, answer
from sizing.units import decimal_bytes_text

CRITEO = (40_000_000,) * 5 + (3_067_956, 590_152, 405_282, 39_060, 20_265, 17_295, 12_973, 11_938, 7_424, 7_122)
"""Rows of the largest tables of MLPerf's DLRM-DCNv2 on Criteo 1TB, each of 128 values, as mlcommons/training has them."""
PLANNED = {2: 62_263_432_572, 4: 41_306_314_968, 8: 20_660_154_960}
PLANNED_BY_ROWS = {2: 52_678_303_260, 4: 26_339_152_920, 8: 13_169_578_008}
"""Bytes of the largest rank by number of ranks, weights in fp32 and 4 bytes a row, as EmbeddingShardingPlanner of
TorchRec 1.9.2 places these tables where table_wise, or row_wise, is its only choice."""


def report_of(
    rows: tuple[int, ...], *, columns: int = 128, num_ranks: int, table_sharding: str | None = None, **blocks: Any
) -> SizingReport:
    tables = [
        {"name": f"embedding_bags.t_{number}.weight", "shape": [num_rows, columns], "dtype": "float32"}
        for number, num_rows in enumerate(rows)
    ]
    training = {"framework": "fsdp2", "precision": "fp32", "optimizer": "rowwise-adagrad"}
    parallelism = {"data": num_ranks} | ({"table_sharding": table_sharding} if table_sharding else {})
    return answer({"model": {"tensors": tables}, "training": training, "parallelism": parallelism} | blocks)


@pytest.mark.parametrize(("num_ranks", "largest"), PLANNED.items())
def test_whole_tables_fill_a_rank_more_than_rows_do(num_ranks: int, largest: int) -> None:
    """Five of the tables hold 98 % of the rows, and none can be divided."""
    by_rows = report_of(CRITEO, num_ranks=num_ranks)
    whole = report_of(CRITEO, num_ranks=num_ranks, table_sharding="table_wise")
    assert whole.layout.max_rank_bytes == largest
    assert by_rows.layout.max_rank_bytes == PLANNED_BY_ROWS[num_ranks]
    assert whole.checkpoint.total_bytes == by_rows.checkpoint.total_bytes
    for report in (whole, by_rows):
        of_ranks = report.layout.rank_classes
        assert sum(each.num_ranks * each.bytes_per_rank for each in of_ranks) == report.checkpoint.total_bytes
        assert sum(each.num_ranks for each in of_ranks) == num_ranks
    (said,) = [each for each in by_rows.warnings if "stands whole" in each]
    assert f"the largest rank has {decimal_bytes_text(largest)} in place of" in said


def test_even_tables_and_a_sharding_that_is_given_are_not_warned_of() -> None:
    even = report_of(CRITEO[:4], num_ranks=4)
    given = report_of(CRITEO, num_ranks=8, table_sharding="row-wise")
    assert not [each for each in (*even.warnings, *given.warnings) if "tables" in each.lower()]
    assert given.layout.max_rank_bytes == report_of(CRITEO, num_ranks=8).layout.max_rank_bytes


@pytest.mark.parametrize(("columns", "num_blocks"), [(128, 1), (192, 1), (256, 2), (512, 4)])
def test_columns_are_cut_into_blocks_that_each_keep_a_moment_of_every_row(columns: int, num_blocks: int) -> None:
    """Blocks of 128 columns on 8 ranks, each with 4 bytes a row; 192 columns are one block, as TorchRec 1.9.2 plans."""
    report = report_of((1_000_000, 1_000_000), columns=columns, num_ranks=8, table_sharding="column-wise")
    block = 1_000_000 * (columns // num_blocks * 4 + 4)
    assert report.layout.max_rank_bytes == block
    assert report.checkpoint.total_bytes == 2 * num_blocks * block


def test_an_answer_says_what_the_largest_rank_has_where_bytes_are_balanced() -> None:
    """Tables of 8, 4 and 4 million rows: TorchRec 1.9.2 puts 12 on one rank; by bytes either has 8."""
    rows = (8_000_000, 4_000_000, 4_000_000)
    report = report_of(rows, num_ranks=2, table_sharding="table-wise")
    assert report.layout.max_rank_bytes == 6_192_000_000
    (said,) = [each for each in report.warnings if "planner" in each]
    assert f"would leave it about {decimal_bytes_text(8_000_000 * (128 * 4 + 4))}" in said
    assert {a.field: a.value for a in report.assumptions}["layout.table_placement"] == "balanced by columns"


def test_memory_save_and_restore_follow_the_largest_rank() -> None:
    """One table of 20.6 GB on each of five ranks of eight, where rows would put 13.2 GB on each."""
    storage = {"profile": {"writer_write_bytes_per_second": 1e9, "writer_read_bytes_per_second": 1e9}}
    cluster = {"node_spec": {"gpus_per_node": 8, "gpu_memory_bytes": "80 GB"}}
    by_rows, whole = (
        report_of(CRITEO, num_ranks=8, table_sharding=each, storage=storage, cluster=cluster)
        for each in ("row-wise", "table-wise")
    )
    assert by_rows.write is not None
    assert whole.write is not None
    assert by_rows.restore is not None
    assert whole.restore is not None
    even = by_rows.checkpoint.total_bytes / 8
    assert by_rows.restore.seconds == pytest.approx(even / 1e9, rel=1e-3)
    assert whole.restore.seconds == pytest.approx(PLANNED[8] / 1e9)
    assert whole.write.seconds - by_rows.write.seconds == pytest.approx((PLANNED[8] - even) / 1e9, rel=1e-3)
    assert whole.training.gpu_state_bytes / by_rows.training.gpu_state_bytes == pytest.approx(PLANNED[8] / even)


@pytest.mark.parametrize(
    ("blocks", "sentence"),
    [
        ({"training": {"framework": "megatron"}}, "table_sharding is a field of format fsdp-sharded"),
        ({"model": {"preset": "gpt2"}}, "must be row-wise for a model without a list of embedding tables"),
        (
            {"parallelism": {"data": 2, "tensor": 2, "table_sharding": "table-wise"}},
            "must be row-wise with tensor ranks, which cut tables by rows",
        ),
        (
            {"parallelism": {"data": 2, "table_sharding": "diagonal"}},
            "must be one of 'row-wise', 'table-wise' or 'column-wise'",
        ),
    ],
)
def test_a_sharding_that_no_table_can_have_is_refused(blocks: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        report_of((1_000_000, 1_000_000), num_ranks=2, table_sharding="table-wise", **blocks)


def test_a_search_of_layouts_weighs_the_largest_rank() -> None:
    """Two tables of 20.6 GB with their rows' values, and gradients, do not fit 80 GB, as shares of a fourth would."""
    report = report_of(
        CRITEO,
        num_ranks=8,
        parallelism={"data": 8, "shard_group": 4, "table_sharding": "table-wise"},
        cluster={"node_spec": {"gpus_per_node": 8, "gpu_memory_bytes": "80 GB"}},
    )
    assert not report.training.state_fits
    (said,) = [each for each in report.warnings if "nearest layout" in each]
    assert "The nearest layout that fits is data 8, shard group 8: 41.16 GB" in said


def test_without_tables_nothing_is_kept_of_each_rank() -> None:
    document = {"model": {"preset": "gpt2"}, "training": {"framework": "fsdp2"}}
    tracemalloc.start()
    try:
        answer({**document, "parallelism": {"data": 64, "context": 1_000_000}})
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 64 * 1_000_000
