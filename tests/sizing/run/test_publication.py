"""Weights of a policy go to inference whole or as a delta, over the network or over storage."""

from typing import Any

import pytest

from sizing.report import SizingReport, answer
from sizing.run.publication import Published

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


def published(**publication: Any) -> Published:
    found = publishing(**publication).publication
    assert found is not None
    return found


def test_every_engine_receives_all_weights_at_the_rate_of_its_nodes() -> None:
    found = published(num_replicas=4, nodes_per_replica=2)
    assert (found.replica_bytes, found.sent_bytes) == (2 * POLICY, 8 * POLICY)
    assert found.seconds == pytest.approx(2 * POLICY / (2 * NETWORK))
    assert found.step_fraction == pytest.approx(2 * POLICY / (2 * NETWORK) / 30)


def test_a_measured_rate_takes_the_place_of_the_network() -> None:
    assert published(replica_bytes_per_second="1 GB/s").seconds == pytest.approx(2 * POLICY / 1e9)


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
