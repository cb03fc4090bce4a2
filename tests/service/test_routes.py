"""The routes answer what the library answers, and the catalogs say where they come from."""

import re
import subprocess
import sys
from typing import Any

import httpx
import pytest

from sizing.published import published
from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO, scenario_from

FACTS = published("vast_checkpoint_example")["one_trillion"]


def test_a_sizing_is_the_answer_of_the_library(client: httpx.Client) -> None:
    response = client.post("/v1/sizings", json=REFERENCE_SCENARIO)
    assert response.status_code == 200
    assert response.json() == answer(scenario_from(REFERENCE_SCENARIO)).model_dump(mode="json")


def test_the_reference_numbers_come_over_http(client: httpx.Client) -> None:
    report = client.post("/v1/sizings", json=REFERENCE_SCENARIO).json()
    assert report["write"]["seconds"] == pytest.approx(FACTS["write_seconds"], rel=1e-4)
    assert report["layout"]["num_writers"] == FACTS["num_writers"]
    assert report["overhead"]["fraction"] == pytest.approx(FACTS["overhead_fraction"], rel=1e-3)
    assert report["restore"]["bytes_per_second_for_write_time"] == pytest.approx(FACTS["restore_bytes_per_second"])
    best = FACTS["lost_work"]["efficiency_at_best"]
    assert report["interval"]["goodput_at_optimum_fraction"] == pytest.approx(best, rel=1e-6)


def test_a_hugging_face_config_is_a_model(client: httpx.Client) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 128256,
    }
    report = client.post("/v1/sizings", json={"model": {"huggingface_config": config}}).json()
    assert report["model"]["num_parameters"] == 8_030_261_248


@pytest.mark.parametrize(("path", "name"), [("/v1/models", "megatron-1t"), ("/v1/nodes", "dgx-a100")])
def test_a_catalog_lists_its_entries_with_source_and_etag(client: httpx.Client, path: str, name: str) -> None:
    listed = client.get(path)
    entry = next(entry for entry in listed.json() if entry["name"] == name)
    assert entry["source"]
    assert client.get(f"{path}/{name}").json() == entry
    assert client.get(path, headers={"if-none-match": listed.headers["etag"]}).status_code == 304
    assert client.get(f"{path}/nothing").status_code == 404


def test_a_listed_model_has_its_parameters(client: httpx.Client) -> None:
    assert client.get("/v1/models/megatron-1t").json()["num_parameters"] == FACTS["num_parameters_exact"]


def test_the_service_is_alive_and_ready(client: httpx.Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ok"}


def test_the_root_leads_to_pages_that_load_nothing_from_elsewhere(client: httpx.Client) -> None:
    home = client.get("/")
    assert home.status_code == 307
    page = client.get(home.headers["location"])
    assert page.status_code == 200
    linked = re.findall(r"""(?:src|href)=["']([^"']+)""", page.text)
    assert linked
    assert all(link.startswith("/") for link in linked)
    for link in linked:
        assert client.get(link).status_code == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_openapi_has_the_reference_scenario_filled_in(client: httpx.Client) -> None:
    document: dict[str, Any] = client.get("/openapi.json").json()
    assert document["components"]["schemas"]["Scenario"]["examples"] == [REFERENCE_SCENARIO]
    responses = document["paths"]["/v1/sizings"]["post"]["responses"]
    assert "application/problem+json" in responses["422"]["content"]


def test_responses_carry_security_headers(client: httpx.Client) -> None:
    headers = client.get("/healthz").headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert "access-control-allow-origin" not in headers


def test_the_service_needs_no_torch() -> None:
    code = "import sys, service.cli; assert not {'torch', 'io_bench'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
