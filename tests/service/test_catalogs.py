"""The catalogs say where they come from, and whether they have changed."""

import httpx
import pytest

from sizing.cluster import node_catalog
from sizing.frameworks import FRAMEWORKS
from sizing.model import catalog, num_parameters
from sizing.run.failure_rates import published_rates
from sizing.training.techniques import Technique, techniques
from sizing.validation import ValidationReport, validation


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/v1/models", list(catalog())),
        ("/v1/nodes", list(node_catalog())),
        ("/v1/failure-rates", list(published_rates())),
    ],
    ids=["models", "nodes", "failure-rates"],
)
def test_a_catalog_lists_all_its_entries_with_their_sources(client: httpx.Client, path: str, names: list[str]) -> None:
    listed = client.get(path).json()
    assert [entry["name"] for entry in listed] == names
    assert all(entry["source"] for entry in listed)
    assert all(client.get(f"{path}/{entry['name']}").json() == entry for entry in listed[:3])


def test_a_listed_model_has_the_parameters_of_its_tensors(client: httpx.Client) -> None:
    for entry in client.get("/v1/models").json():
        model = catalog()[entry["name"]]
        assert entry["num_parameters"] == num_parameters(model.inventory)
        assert entry["num_parameters"] == (model.num_parameters or entry["num_parameters"])


def test_techniques_are_listed_with_their_sources(client: httpx.Client) -> None:
    listed = client.get("/v1/techniques").json()
    assert [Technique.model_validate(entry) for entry in listed] == list(techniques())
    assert all(entry["source"] for entry in listed)


def test_frameworks_are_listed_with_their_versions_and_sources(client: httpx.Client) -> None:
    listed = client.get("/v1/frameworks").json()
    assert [entry["name"] for entry in listed] == list(FRAMEWORKS)
    assert all(entry["version"] and entry["source"] for entry in listed)
    assert {entry["format"] for entry in listed} <= {entry["name"] for entry in client.get("/v1/formats").json()}
    (maxtext,) = (entry for entry in listed if entry["name"] == "maxtext")
    assert maxtext["not_taken"] == {"MaxText checkpoint_period": "10,000 steps"}


@pytest.mark.long
def test_predictions_stand_beside_what_is_published(client: httpx.Client) -> None:
    assert ValidationReport.model_validate(client.get("/v1/validation").json()) == validation()


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models",
        "/v1/nodes",
        "/v1/failure-rates",
        "/v1/failure-rates/rsc-1",
        "/v1/frameworks",
        "/v1/techniques",
        pytest.param("/v1/validation", marks=pytest.mark.long),
        "/v1/models/gpt2",
        "/v1/nodes/dgx-a100",
    ],
)
def test_what_the_client_has_already_is_not_sent_again(client: httpx.Client, path: str) -> None:
    etag = client.get(path).headers["etag"]
    for known in (etag, etag.removeprefix("W/"), f'"other", {etag}', "*"):
        again = client.get(path, headers={"if-none-match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    assert client.get(path, headers={"if-none-match": '"other"'}).status_code == 200


def test_an_answer_plain_and_compressed_share_a_tag_that_promises_no_equal_bytes(client: httpx.Client) -> None:
    tags = {client.get("/v1/models", headers={"accept-encoding": coding}).headers["etag"] for coding in ("", "gzip")}
    assert [tag.startswith('W/"') for tag in tags] == [True]


@pytest.mark.parametrize(("path", "nearest"), [("/v1/models/gpt-22", "gpt2"), ("/v1/nodes/dgx-h10", "dgx-h100")])
def test_an_unknown_name_is_told_the_nearest(client: httpx.Client, path: str, nearest: str) -> None:
    refused = client.get(path)
    assert refused.status_code == 404
    assert refused.json()["code"] == "not-found"
    assert nearest in refused.json()["detail"]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/models/Llama-3.1-405B", "llama-3.1-405b"),
        ("/v1/models/GPT_2", "gpt2"),
        ("/v1/models/gemma-3-12b-it", "gemma-3-12b"),
        ("/v1/nodes/DGX-H200", "dgx-h200"),
        ("/v1/failure-rates/Llama 3 405B", "llama-3-405b"),
        ("/v1/storage-profiles/MLPerf v3 HPE e2000", "mlperf-v3-hpe-e2000"),
    ],
)
def test_a_name_is_found_however_it_is_spelled(client: httpx.Client, path: str, name: str) -> None:
    assert client.get(path).json()["name"] == name


def test_a_name_that_fits_several_lists_them(client: httpx.Client) -> None:
    refused = client.get("/v1/nodes/h100")
    assert refused.status_code == 404
    assert "choose one of azure-nd-h100-v5, dgx-h100, hgx-h100" in refused.json()["detail"]


def test_a_question_takes_what_people_type(client: httpx.Client) -> None:
    storage = {"profile": {"write_bytes_per_second": "500 gb/s"}}
    typed = {"model": {"preset": "Llama-3.1-405B"}, "cluster": {"node": "DGX-H200"}, "storage": storage}
    report = client.post("/v1/sizings", json=typed | {"targets": {"max_overhead_fraction": "5%"}}).json()
    assert (report["model"]["name"], report["layout"]["node"]) == ("llama-3.1-405b", "dgx-h200")
    assert report["overhead"]["max_overhead_fraction"] == 0.05
    refused = client.post("/v1/sizings", json=typed | {"storage": {"profile": {"write_bytes_per_second": "500"}}})
    assert refused.status_code == 422
    assert "is a rate without a unit" in refused.json()["detail"]
