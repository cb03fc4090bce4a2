"""Saved scenarios: stored by token holders as they were given, shared by link."""

from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy import update

from service.database import open_database
from service.database.tables import ScenarioRow
from service.reports import describe_origin
from service.routes.scenarios import subject_of
from sizing import __version__
from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from sizing.schema_versions import SCHEMA_VERSION
from tests.service.conftest import SQLITE_FIRST, bearer

DATABASES = SQLITE_FIRST

BODY = {"name": "1T", "scenario": REFERENCE_SCENARIO}


def test_a_scenario_is_saved_found_answered_and_deleted(client: httpx.Client, token: str) -> None:
    made = client.post("/v1/scenarios", json=BODY, headers=bearer(token))
    assert made.status_code == 201
    link = made.headers["location"]
    assert client.get(link).json() == made.json()
    assert link.endswith(made.json()["id"])
    assert made.json()["created_at"].endswith("Z")
    report = client.get(f"{link}/report")
    assert report.json() == answer(scenario_from(REFERENCE_SCENARIO)).model_dump(mode="json")
    deleted = client.delete(link, headers=bearer(token))
    assert (deleted.status_code, deleted.content) == (204, b"")
    for path in (link, f"{link}/report"):
        gone = client.get(path)
        assert (gone.status_code, gone.json()["code"]) == (404, "not-found")
    assert client.delete(link, headers=bearer(token)).status_code == 404


def test_the_document_is_kept_as_it_was_given(client: httpx.Client, token: str) -> None:
    given = {"checkpoint": {"interval_seconds": "1h 30min"}, "model": {"huggingface_config": CONFIG}}
    made = client.post("/v1/scenarios", json={"name": "as given", "scenario": given}, headers=bearer(token))
    kept = client.get(made.headers["location"]).json()["scenario"]
    assert kept == given | {"schema_version": SCHEMA_VERSION}
    assert [name for name in kept if name in given] == list(given)


def test_a_scenario_that_was_stored_before_keeps_the_defaults_of_its_time(
    client: httpx.Client, token: str, database_url: str
) -> None:
    """Its row has no version, as those of earlier releases; asked anew the document has the same answer."""
    asked = {"model": {"preset": "llama-3.1-8b"}, "reliability": {"mtbf_seconds": "9h"}, **STORAGE}
    made = client.post("/v1/scenarios", json={"name": "then", "scenario": asked}, headers=bearer(token))
    link = made.headers["location"]
    assert client.get(f"{link}/report").json()["schema_version"] == SCHEMA_VERSION
    database = open_database(database_url)
    with database.writing() as session:
        row = session.get(ScenarioRow, UUID(made.json()["id"]))
        assert row is not None
        row.scenario = asked
    database.close()
    kept, report = client.get(link).json()["scenario"], client.get(f"{link}/report").json()
    assert kept == asked | {"schema_version": 1}
    assert report["schema_version"] == 1
    assert report["checkpoint"]["format"] == "megatron"
    assert report["interval"]["recovery_seconds"] == report["restore"]["seconds"]
    assert client.post("/v1/sizings", json=kept).json() == report
    today = client.post("/v1/sizings", json=asked).json()
    assert (today["schema_version"], today["checkpoint"]["format"]) == (SCHEMA_VERSION, "torch-dist")
    assert today["interval"]["recovery_seconds"] == today["restore"]["seconds"] + 522.6


def test_a_link_says_which_figures_differ_since_it_was_saved_and_by_which_versions(
    client: httpx.Client, token: str, database_url: str
) -> None:
    """Its row has figures of another version, or none, as before they were kept."""
    made = client.post("/v1/scenarios", json=BODY, headers=bearer(token))
    link = made.headers["location"]
    same = {"saved_by": __version__, "answered_by": __version__, "figures": []}
    assert client.get(f"{link}/changes").json() == same
    database = open_database(database_url)
    with database.writing() as session:
        row = session.get(ScenarioRow, UUID(made.json()["id"]))
        assert row is not None
        assert row.figures is not None
        seconds = row.figures["write.seconds"]
        others = {"write.seconds": 2 * seconds, "cost.total": 7.5, "a figure of a later version": 3.0}
        row.code_version, row.figures = "0.0.9", row.figures | others
    changed = [
        {"figure": "write.seconds", "then": 2 * seconds, "now": seconds},
        {"figure": "cost.total", "then": 7.5, "now": None},
    ]
    assert client.get(f"{link}/changes").json() == same | {"saved_by": "0.0.9", "figures": changed}
    said = f"as {row.id} by checkpoint-sizing 0.0.9, figures that differ since: write.seconds, cost.total"
    assert said in describe_origin(subject_of(row), client.get(f"{link}/report").json())
    with database.writing() as session:
        session.execute(update(ScenarioRow).where(ScenarioRow.id == row.id).values(code_version=None, figures=None))
    database.close()
    assert client.get(f"{link}/changes").json() == same | {"saved_by": None}


STORAGE = {"storage": {"profile": {"write_bytes_per_second": "10 GB/s", "read_bytes_per_second": "10 GB/s"}}}


CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "rope_theta": 5e5,
    "_name_or_path": "Ünïcode \u0001 \U0001f40b",
    "id2label": {"0": None, "1": [True, -1, 0.1]},
}


def test_pages_of_scenarios_cover_all_of_them_once_newest_first(client: httpx.Client, token: str) -> None:
    for number in range(5):
        client.post("/v1/scenarios", json=BODY | {"name": f"page {number}"}, headers=bearer(token))
    names: list[str] = []
    page: dict[str, Any] = {"next": None}
    while not names or page["next"]:
        cursor = {"cursor": page["next"]} if page["next"] else {}
        page = client.get("/v1/scenarios", params={"limit": 2} | cursor).json()
        assert len(page["items"]) <= 2
        names += [item["name"] for item in page["items"]]
    assert [name for name in names if name.startswith("page")] == [f"page {number}" for number in (4, 3, 2, 1, 0)]


def test_a_page_stays_where_it_is_while_others_save(client: httpx.Client, token: str) -> None:
    for number in range(3):
        client.post("/v1/scenarios", json=BODY | {"name": f"stable {number}"}, headers=bearer(token))
    first = client.get("/v1/scenarios", params={"limit": 2}).json()
    client.post("/v1/scenarios", json=BODY | {"name": "later"}, headers=bearer(token))
    second = client.get("/v1/scenarios", params={"limit": 1, "cursor": first["next"]}).json()
    assert [item["name"] for item in first["items"] + second["items"]] == ["stable 2", "stable 1", "stable 0"]


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("limit=0", "limit must be at least 1, got '0'"),
        ("limit=1000", "limit must be at most 200"),
        ("limit=x", "limit must be a whole number"),
        ("cursor=x", "cursor must be an id, got 'x'"),
        ("limt=3", "limt is not a query parameter of this address: did you mean limit"),
    ],
)
def test_a_page_that_does_not_exist_is_refused(client: httpx.Client, query: str, sentence: str) -> None:
    refused = client.get(f"/v1/scenarios?{query}")
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid-input")
    assert sentence in refused.json()["detail"]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            {"name": "x", "scenario": {"model": {"preset": "gpt2"}, "parallelism": {"tensor": 5}}},
            "scenario.parallelism.tensor",
        ),
        ({"name": "x", "scenario": {"model": {"presett": "gpt2"}}}, "did you mean preset"),
        (
            {"name": "x", "scenario": {"model": {"preset": "gpt2"}, "checkpoint": {"interval_seconds": "soon"}}},
            "scenario.checkpoint.interval_seconds is not a duration",
        ),
        ({"name": "", "scenario": REFERENCE_SCENARIO}, "name must have 1 or more characters, got ''"),
        ({"name": " x", "scenario": REFERENCE_SCENARIO}, "name must be one line"),
        ({"name": "a\nb", "scenario": REFERENCE_SCENARIO}, "name must be one line"),
        ({"name": "a\u0001", "scenario": REFERENCE_SCENARIO}, "name must be one line"),
        ({"name": "a" * 101, "scenario": REFERENCE_SCENARIO}, "name must have at most 100 characters"),
        ({"scenario": REFERENCE_SCENARIO}, "name is required"),
        ({"name": "x"}, "scenario is required"),
        ({"nam": "x", "name": "x", "scenario": REFERENCE_SCENARIO}, "did you mean name"),
    ],
)
def test_what_has_no_answer_or_name_is_not_saved(
    client: httpx.Client, token: str, body: dict[str, Any], sentence: str
) -> None:
    before = client.get("/v1/scenarios").json()
    refused = client.post("/v1/scenarios", json=body, headers=bearer(token))
    assert refused.status_code == 422
    assert sentence in refused.json()["detail"]
    assert client.get("/v1/scenarios").json() == before


@pytest.mark.parametrize("name", ["0", "x" * 1000, "01a1fda6-c9fb-7539-b154-418eb9e9d223", "%00", "..%2f..%2fetc"])
def test_an_id_of_nothing_is_not_found(client: httpx.Client, name: str) -> None:
    refused = client.get(f"/v1/scenarios/{name}")
    assert (refused.status_code, refused.json()["code"]) == (404, "not-found")


def test_the_list_has_the_figures_of_the_answer_that_was_given_when_it_was_saved(
    client: httpx.Client, token: str, database_url: str
) -> None:
    made = client.post("/v1/scenarios", json=BODY | {"name": "with figures"}, headers=bearer(token)).json()
    (listed,) = (row for row in client.get("/v1/scenarios").json()["items"] if row["id"] == made["id"])
    report = answer(scenario_from(REFERENCE_SCENARIO))
    assert report.write is not None
    assert {found["label"]: found["value"] for found in listed["figures"]} == {
        "One checkpoint": report.checkpoint.written_bytes,
        "Write bandwidth": report.write.bytes_per_second,
        "Overhead": report.overhead.fraction,
        "Goodput": report.interval.goodput_at_interval_fraction,
        "Targets": True,
    }
    assert [found["figure"] for found in listed["figures"]] == ["13.80 TB", "273.0 GB/s", "0.351 %", "80.4 %", "met"]
    assert listed["code_version"] == __version__
    database = open_database(database_url)
    with database.writing() as session:
        row = UUID(made["id"])
        session.execute(update(ScenarioRow).where(ScenarioRow.id == row).values(code_version=None, figures=None))
    database.close()
    (before,) = (row for row in client.get("/v1/scenarios").json()["items"] if row["id"] == made["id"])
    assert (before["figures"], before["code_version"]) == ([], None)
