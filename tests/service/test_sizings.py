"""Over HTTP the answers are those of the library."""

import json
from typing import Any

import httpx
import pytest

from sizing.published import published
from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO, scenario_from

FACTS = published("vast_checkpoint_example")["one_trillion"]
TENSORS = [
    {"name": "model.embed_tokens.weight", "shape": [512, 64]},
    {"name": "model.layers.{0..7}.self_attn.q_proj.weight", "shape": [64, 64]},
    {"name": "model.layers.{0..7}.mlp.experts.{0..15}.up_proj.weight", "shape": [128, 64]},
]


@pytest.mark.parametrize(
    "document",
    [
        REFERENCE_SCENARIO,
        {"model": {"preset": "llama-3.1-405b"}, "parallelism": {"tensor": 8, "pipeline": 16, "data": 128}},
        {"model": {"num_parameters": 10**12}},
        {"model": {"preset": "llama-3.1-8b"}, "cluster": {"num_gpus": 64}},
        {"model": {"tensors": TENSORS, "num_attention_heads": 8}, "parallelism": {"tensor": 8, "expert": 8, "data": 8}},
    ],
)
def test_a_sizing_is_the_answer_of_the_library(client: httpx.Client, document: dict[str, Any]) -> None:
    response = client.post("/v1/sizings", json=document)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json() == answer(scenario_from(document)).model_dump(mode="json")


def test_numbers_are_read_as_they_are_printed(client: httpx.Client) -> None:
    costs = {"run_seconds": "90d", "per_terabyte": "1,500", "per_lost_gpu_hour": "$2.80"}
    printed = {"model": {"preset": "llama-3.1-8b"}, "cluster": {"num_gpus": "2,048"}, "costs": costs}
    plain = printed | {"cluster": {"num_gpus": 2048}, "costs": costs | {"per_terabyte": 1500, "per_lost_gpu_hour": 2.8}}
    assert client.post("/v1/sizings", json=printed).json() == client.post("/v1/sizings", json=plain).json()
    wanted = {"scenario": printed, "objective": "step-time"}
    assert (
        client.post("/v1/layouts", json=wanted).json()
        == client.post("/v1/layouts", json=wanted | {"scenario": plain}).json()
    )
    refused = client.post("/v1/sizings", json=printed | {"cluster": {"num_gpus": "20,48"}})
    assert [each["field"] for each in refused.json()["errors"]] == ["cluster.num_gpus"]
    mixed = client.post("/v1/sizings", json=printed | {"costs": costs | {"per_terabyte": "€200"}})
    assert "in the currency of the other prices" in mixed.json()["errors"][0]["sentence"]


def test_a_page_of_a_number_of_gpus_says_which_layout_was_found(client: httpx.Client) -> None:
    document = {"model": {"preset": "llama-3.1-8b"}, "cluster": {"num_gpus": 64}}
    page = client.post("/v1/sizings", json=document, headers={"accept": "text/html"})
    assert page.status_code == 200
    assert f"; {answer(document).assumptions[0].value_text}, chosen for you)" in page.text


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


@pytest.mark.parametrize(
    "media_type", ["application/json; charset=utf-8", "Application/JSON", "application/vnd.x+json"]
)
def test_json_goes_by_several_names(client: httpx.Client, media_type: str) -> None:
    body = json.dumps(REFERENCE_SCENARIO)
    response = client.post("/v1/sizings", content=body, headers={"content-type": media_type})
    assert response.status_code == 200


def test_the_service_is_alive_and_ready(client: httpx.Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json()["status"] == "ok"


def test_responses_carry_security_headers_and_no_leave_for_other_origins(client: httpx.Client) -> None:
    for path in ("/healthz", "/v1/nothing", "/openapi.json"):
        headers = client.get(path, headers={"origin": "https://elsewhere.example"}).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers
