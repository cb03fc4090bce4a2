"""Adapters of the catalog's nodes are those of the published row that each names, and unknown where sources are."""

from typing import Any

import pytest
from pydantic import ValidationError

from sizing.cluster import Cluster, node_catalog
from sizing.cluster.adapters import NetworkAdapters
from sizing.cluster.cluster import resolve_node
from sizing.cluster.node import CatalogNode
from sizing.published import published
from sizing.scenario import scenario_from

ROWS: dict[str, dict[str, Any]] = {row["node"]: row for row in published("node_networks")["rows"]}
NODES = list(node_catalog().values())
WITH_ROW = [node for node in NODES if node.network_row]

NO_SUCH_NODE = "the catalog has no such node"
NOT_TAKEN = {
    "DGX H100 (Eos)": "DGX BasePOD says otherwise of the same node: the storage network of dgx-h100 is unknown",
    "GB300 NVL72 compute tray": "it has no rate: dgx-gb300 is the tray that ran MLPerf",
    "Grand Teton H100 (Meta)": NO_SUCH_NODE,
    "WhiteFiber H200": NO_SUCH_NODE,
    "Alibaba C4 H800 node": "a secondary source, and the catalog has no such node",
    "BLOOM node (Jean Zay)": NO_SUCH_NODE,
}
"""Rows that no node of the catalog names, each with the reason."""


def published_compute(row: dict[str, Any]) -> NetworkAdapters | None:
    """What a row says of the traffic between GPUs."""
    compute = row.get("compute", {})
    if "gbit_each" in compute:
        return NetworkAdapters(num=compute["count"], bytes_per_second=compute["gbit_each"] * 1e9 / 8)
    if compute:
        return NetworkAdapters(num=compute.get("count"), total_bytes_per_second=compute["gbit_total"] * 1e9 / 8)
    if "efa_interfaces" not in row:
        return None
    return NetworkAdapters(num=row["efa_interfaces"], total_bytes_per_second=row["network_gbit_total"] * 1e9 / 8)


def published_storage(row: dict[str, Any]) -> NetworkAdapters | None:
    """What a row says of the traffic to the storage alone, or of all that can pass to it."""
    storage, shared = row.get("storage"), row.get("storage_and_management", {})
    if isinstance(storage, dict):
        return NetworkAdapters(num=storage["count"], bytes_per_second=storage["gbit_each"] * 1e9 / 8)
    return NetworkAdapters(total_bytes_per_second=shared["gbit_total"] * 1e9 / 8) if "gbit_total" in shared else None


def published_shared(row: dict[str, Any]) -> NetworkAdapters | None:
    """What a row says of ports that serve storage and management, where it does not say which."""
    shared = row.get("storage_and_management", {})
    if "cards" not in shared:
        return None
    rate = shared["gbit_up_to"] * 1e9 / 8 if "gbit_up_to" in shared else None
    return NetworkAdapters(num=shared["cards"], ports_each=shared.get("ports_per_card"), bytes_per_second=rate)


@pytest.mark.parametrize("node", WITH_ROW, ids=lambda node: node.name)
def test_a_node_has_the_figures_of_the_row_that_it_names(node: CatalogNode) -> None:
    row = ROWS[str(node.network_row)]
    assert node.spec.gpus_per_node == row["gpus"]
    assert node.compute_nics == published_compute(row)
    assert node.storage_nics == published_storage(row)
    assert node.storage_and_management_nics == published_shared(row)
    if "local_nvme_gb_total" in row:
        assert node.spec.local_nvme_bytes == row["local_nvme_gb_total"] * 10**9
    elif "local_nvme_tb_each" in row:
        assert node.spec.local_nvme_bytes == pytest.approx(row["local_nvme_count"] * row["local_nvme_tb_each"] * 1e12)


def test_every_row_is_taken_by_a_node_or_left_out_for_a_reason() -> None:
    taken = {node.network_row for node in WITH_ROW}
    assert taken | NOT_TAKEN.keys() == ROWS.keys()
    assert not taken & NOT_TAKEN.keys()


def test_a_node_without_a_row_or_without_a_storage_network_says_why() -> None:
    for node in NODES:
        if node.network_row is None or node.spec.storage_network_bytes_per_second is None:
            assert node.network_note, node.name


def test_what_all_adapters_carry_is_number_times_rate() -> None:
    spec = node_catalog()["dgx-a100"].spec
    assert (spec.storage_network_bytes_per_second, spec.compute_network_bytes_per_second) == (50e9, 200e9)
    assert node_catalog()["aws-p5"].spec.compute_network_bytes_per_second == 400e9
    assert node_catalog()["azure-nd-h100-v5"].spec.storage_network_bytes_per_second == 10e9


@pytest.mark.parametrize(
    ("node", "gigabits_per_second"), [("aws-p4d", 400), ("azure-nd-h200-v5", 3200), ("azure-nd-gb300-v6", 3200)]
)
def test_networks_between_gpus_that_clouds_publish_are_known(node: str, gigabits_per_second: float) -> None:
    assert node_catalog()[node].spec.compute_network_bytes_per_second == gigabits_per_second * 1e9 / 8


def test_where_sources_differ_the_report_says_that_the_storage_network_is_unknown() -> None:
    (assumed,) = (a for a in resolve_node(Cluster()).assumptions if a.field == "cluster.storage_nics")
    assert assumed.value == "unknown"
    assert assumed.reason.startswith("storage network: sources differ: 2 x 400 Gb/s")
    own = Cluster.model_validate({"storage_nics": "2 x 400 Gb/s"})
    assert [a.field for a in resolve_node(own).assumptions] == ["cluster.node"]
    assert resolve_node(Cluster(node="dgx-a100")).assumptions == ()


@pytest.mark.parametrize(
    ("node", "gigabytes_per_second"),
    [
        ("dgx-a100", 50),  # 2 x 200 Gb/s for storage
        ("dgx-h200", 600),  # compute 8 x 400, storage and management 2 x 2 x 400: which of them is not said
        ("dgx-gb200", 200),  # compute 4 x 400; the rate of the others is not published
        ("aws-p5", 400),  # one network for all
        ("azure-nd-h100-v5", 10),
        ("hgx-h100", None),
    ],
)
def test_the_limit_is_the_storage_network_or_all_that_is_published(
    node: str, gigabytes_per_second: float | None
) -> None:
    limit = resolve_node(Cluster(node=node)).network_limit
    assert (limit and limit.bytes_per_second / 1e9) == gigabytes_per_second


@pytest.mark.parametrize("text", ["2 x 400 Gb/s", "2x400Gb/s", "2 X 50 GB/s", "2*400 Gbit/s", " 2 × 400 Gb/s "])  # noqa: RUF001  as people type it
def test_own_adapters_are_understood_as_people_write_them(text: str) -> None:
    nics = Cluster.model_validate({"storage_nics": text}).storage_nics
    assert nics is not None
    assert (nics.num, nics.bytes_per_second, nics.node_bytes_per_second) == (2, 50e9, 100e9)


@pytest.mark.parametrize(
    "text", ["2", "400 Gb/s", "2 x 400", "x 400 Gb/s", "0 x 400 Gb/s", "2 x 400 Gb", "99999 x 1 Gb/s"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        Cluster.model_validate({"storage_nics": text})


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("p5.48xlarge", "aws-p5"),
        ("p5en.48xlarge", "aws-p5en"),
        ("p6-b300", "aws-p6-b300"),
        ("a3-ultragpu-8g", "gcp-a3-ultra"),
        ("ND_H100_v5", "azure-nd-h100-v5"),
        ("standard_nd96isr_h200_v5", "azure-nd-h200-v5"),
    ],
)
def test_a_node_is_known_by_the_name_of_its_cloud(name: str, own: str) -> None:
    scenario = scenario_from({"model": {"preset": "gpt2"}, "cluster": {"node": name}})
    assert scenario.cluster.node == own
