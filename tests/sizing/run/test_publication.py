"""Weights of a policy go to inference whole or as a delta, over the network or over storage."""

from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.published import published as published_facts
from sizing.questions.answer.state_rows import beside_rows
from sizing.report import SizingReport, answer
from sizing.state.reinforcement import LOAD, NETWORK_FRACTION
from sizing.validation.publication_times import predicted_update, publication_times

POLICY = 8_030_261_248
DOCUMENT: dict[str, Any] = {
    "model": {"preset": "llama-3-8b"},
    "parallelism": {"tensor": 8, "data": 2},
    "cluster": {"node": "dgx-h100"},
    "storage": {"profile": {"write_bytes_per_second": "10 GB/s", "read_bytes_per_second": "20 GB/s"}},
}
NETWORK = 8 * 400e9 / 8
"""Eight ports of 400 Gb/s of a DGX H100's compute network, in bytes per second."""


def publishing(storage: Any = DOCUMENT["storage"], **publication: Any) -> SizingReport:
    sent = {"interval_seconds": 30} | publication
    return answer(DOCUMENT | {"storage": storage, "training": {"reinforcement": {"publication": sent}}})


def published(**publication: Any) -> Any:
    found = publishing(**publication).publication
    assert found is not None
    return found


NUM_TENSORS = 32 * 9 + 3
"""Of Llama 3 8B in its published files: 9 for each layer, embedding, norm and head."""


def test_every_node_receives_all_weights_or_peer_to_peer_its_part() -> None:
    broadcast = published(num_replicas=4, nodes_per_replica=2, network_fraction=0.5)
    assert (broadcast.replica_bytes, broadcast.sent_bytes) == (2 * POLICY, 8 * POLICY)
    assert broadcast.receive_seconds == pytest.approx(2 * POLICY / (0.5 * NETWORK))
    to_peers = published(nodes_per_replica=2, network_fraction=0.5, transfer="peer-to-peer")
    assert to_peers.receive_seconds == pytest.approx(2 * POLICY / 2 / (0.5 * NETWORK))


def test_a_publication_gathers_copies_and_then_receives_while_it_loads() -> None:
    found = published(through_host=True, network_fraction=0.5, load_seconds_per_tensor=0.01)
    assert found.num_tensors == NUM_TENSORS
    assert found.load_seconds == pytest.approx(2.91)
    assert found.gather_seconds == pytest.approx(2 * POLICY / (0.67 * NETWORK))
    assert found.copy_seconds == pytest.approx(2 * 2 * POLICY / 16 / (63e9 * 0.47), rel=0.001)
    assert found.seconds == pytest.approx(found.gather_seconds + found.copy_seconds + found.load_seconds)
    assert found.step_fraction == pytest.approx(found.seconds / 30)


def test_formats_with_scales_have_a_tensor_of_them_for_each_matrix() -> None:
    assert published(dtype="fp8-block").num_tensors == NUM_TENSORS + 32 * 7


def test_trainers_that_each_have_the_whole_model_gather_nothing() -> None:
    reinforcement = {"publication": {"interval_seconds": 30}}
    whole = answer(DOCUMENT | {"parallelism": {"data": 16}, "training": {"reinforcement": reinforcement}}).publication
    assert whole is not None
    assert whole.gather_seconds == 0
    assert published().gather_seconds


def test_what_nobody_stated_gives_a_range_that_stands_beside_the_figure() -> None:
    report = publishing(through_host=True)
    found: Any = report.publication
    assert found.receive_seconds == pytest.approx(2 * POLICY / (NETWORK_FRACTION.midpoint * NETWORK))
    assert found.seconds_low == pytest.approx(2 * POLICY / NETWORK)
    assert found.seconds_high == pytest.approx(
        2 * POLICY / (0.6 * NETWORK) + 2 * 2 * POLICY / 16 / 6.3e9 + 2 * POLICY / 8.25e9 + NUM_TENSORS * 4.24e-4,
        rel=0.001,
    )
    (row,) = (row for row in beside_rows(report) if row.label == "publication")
    assert row.figure.startswith("~")
    assert "with what is assumed" in row.meaning
    assumed = {each.field.rpartition(".")[2]: each.value for each in report.assumptions}
    assert assumed["network_fraction"] == pytest.approx((0.020625 * 1.0) ** 0.5)
    assert assumed["load_seconds_per_tensor"] == pytest.approx((0.48 / 18_867 * 8 / 18_867) ** 0.5, rel=0.001)


def test_to_state_what_is_assumed_changes_no_figure_but_narrows_the_range() -> None:
    assumed = published()
    stated = published(network_fraction=NETWORK_FRACTION.midpoint, load_seconds_per_tensor=LOAD.midpoint)
    assert stated.seconds == assumed.seconds
    assert assumed.seconds_low < stated.seconds_low <= stated.seconds <= stated.seconds_high < assumed.seconds_high


ROWS = published_facts("weight_publications")["rows"]
MOST_TOO_FAST, MOST_TOO_SLOW = 0.99, 1.65
"""Of seconds published: none of the rows was used to choose a rate."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['model']} on {row['num_gpus']} by {row['way']}")
def test_published_updates_of_weights_are_met_within_the_range(row: dict[str, Any]) -> None:
    """They begin in host memory: without the gathering of trainers, and without half of the copies."""
    found = predicted_update(row)
    assert MOST_TOO_FAST < found.seconds / row["update_seconds"] < MOST_TOO_SLOW
    assert found.seconds_low < row["update_seconds"] < found.seconds_high


def test_every_published_update_of_weights_stands_in_the_validation() -> None:
    rows = list(publication_times())
    assert [row.published for row in rows] == [row["update_seconds"] for row in ROWS]
    assert all(row.as_expected for row in rows)
    assert [row.verdict for row in rows].count("agrees") == 7


def test_a_measured_rate_takes_the_place_of_the_network() -> None:
    found = published(replica_bytes_per_second="1 GB/s")
    assert found.seconds == found.seconds_low == found.seconds_high == pytest.approx(2 * POLICY / 1e9)


def test_a_delta_has_its_fraction_of_the_bytes() -> None:
    assert published(content="delta", delta_fraction=0.01).replica_bytes == pytest.approx(0.02 * POLICY)
    assert published(content="delta").replica_bytes == pytest.approx((0.0077 + 0.029) / 2 * 2 * POLICY)


def test_over_storage_trainers_write_once_and_each_engine_reads() -> None:
    found = published(over="storage", num_replicas=4)
    assert found.write_seconds == pytest.approx(2 * POLICY / 10e9)
    assert found.receive_seconds == pytest.approx(4 * 2 * POLICY / 20e9)


def test_a_publication_that_takes_longer_than_its_interval_is_warned_of() -> None:
    found = publishing(replica_bytes_per_second="0.1 GB/s")
    assert any("A publication takes 5.35 x the interval" in warning for warning in found.warnings)


def test_a_rate_that_is_not_known_is_said() -> None:
    found = publishing(storage=None, over="storage")
    assert found.publication is not None
    assert found.publication.seconds is None
    assert any("No rate for training.reinforcement.publication" in warning for warning in found.warnings)


def test_the_critic_does_not_go_to_inference() -> None:
    models = {"critic_parameters": "8B", "publication": {"interval_seconds": 30}}
    found = answer(DOCUMENT | {"training": {"reinforcement": models}}).publication
    assert found is not None
    assert found.weights_bytes == 2 * POLICY


ADAPTERS = 32 * 16 * ((4096 + 4096) + (4096 + 1024))
"""Parameters of LoRA of rank 16 beside the queries (4096 x 4096) and values (4096 x 1024) of 32 layers."""


def adapting(**reinforcement: Any) -> SizingReport:
    training = {"adapters": {"rank": 16}, "reinforcement": reinforcement}
    return answer(DOCUMENT | {"training": training})


def test_adapters_alone_go_to_engines_that_hold_the_frozen_weights() -> None:
    over = {"interval_seconds": 30, "content": "adapters", "over": "storage", "num_replicas": 4}
    report = adapting(critic_parameters="8B", publication=over)
    found: Any = report.publication
    assert (found.weights_bytes, found.replica_bytes, found.sent_bytes) == (2 * POLICY, 2 * ADAPTERS, 8 * ADAPTERS)
    assert found.num_tensors == 32 * 2 * 2
    assert report.capacity.published_bytes == 2 * ADAPTERS
    in_fp8: Any = adapting(publication=over | {"dtype": "fp8-block"}).publication
    assert in_fp8.replica_bytes == 2 * ADAPTERS
    assert in_fp8.num_tensors == 32 * 2 * 2
    assert not any("adapters merged" in warning for warning in report.warnings)


def test_that_adapters_are_merged_into_all_weights_is_said() -> None:
    report = adapting(publication={"interval_seconds": 30})
    found: Any = report.publication
    assert found.replica_bytes == 2 * POLICY
    assert any("training.reinforcement.publication.content adapters" in warning for warning in report.warnings)


def test_adapters_that_nobody_trains_are_not_sent() -> None:
    with pytest.raises(InvalidInput, match="adapters alone are exported or go to inference"):
        publishing(content="adapters")
