"""Reports of saved scenarios: a page, a PDF, a table and the JSON document, all of one answer."""

import base64
import csv
import io
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pypdf
import pytest

from service.reports import table_text
from sizing import __version__
from sizing.present.document import Presentation
from sizing.present.figure_names import figure_name
from sizing.questions import registry
from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from tests.examples import spread
from tests.service.conftest import bearer, created_token, serving
from tests.testbed.processes import SECONDS_UNTIL_STUCK

PRESENTATION = "application/vnd.checkpoint-sizing.presentation+json"
NAME = "Purchase 2027 <script>alert(1)</script> & 'friends'"


@pytest.fixture(scope="module")
def link(client: httpx.Client, token: str) -> str:
    made = client.post("/v1/scenarios", json={"name": NAME, "scenario": REFERENCE_SCENARIO}, headers=bearer(token))
    assert made.status_code == 201
    return f"{made.headers['location']}/report"


class Page(HTMLParser):
    """Tags with their attributes, and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.mark.parametrize("form", ["json", "csv", "presentation"])
def test_an_answer_says_which_version_made_it(client: httpx.Client, link: str, form: str) -> None:
    assert client.get(link, params={"form": form}).headers["x-checkpoint-sizing-version"] == __version__


def test_the_page_says_the_answer_first_and_loads_nothing(client: httpx.Client, link: str) -> None:
    response = client.get(link, headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert "script-src" not in response.headers["content-security-policy"]
    page = Page(response.text)
    assert [tag for tag, _ in page.tags if tag in ("script", "link", "iframe", "object")] == []
    sources = [attributes.get("src") or attributes.get("href") for _, attributes in page.tags]
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources if source)
    assert "url(" not in response.text
    said = re.sub(r"\s+", " ", page.words)
    assert NAME in said
    for figure in ("13.80 TB", "50.55 s", "82.80 s", "19.6 %", "31.5 min", "19.17 GB/s", "27.60 TB"):
        assert said.index(figure) < said.index("Before you rely on it"), figure


def test_the_page_says_what_it_rests_on(client: httpx.Client, link: str) -> None:
    said = re.sub(r"\s+", " ", Page(client.get(link, params={"form": "html"}).text).words)
    report = client.get(link).json()
    titles = ("What was asked", "Who writes what", "What was assumed", "Where the figures come from", "To ask it again")
    assert sorted(titles, key=said.index) == list(titles)
    assert len(report["provenance"]) > 2
    for origin in report["provenance"]:
        figures = ", ".join(figure_name(name) if name else "others" for name in origin["figures"])
        assert f"{figures}{origin['kind']}" in said  # cells of one row


def test_every_chart_is_a_drawing_with_words_for_those_who_do_not_see_it(client: httpx.Client, link: str) -> None:
    page = Page(client.get(link, params={"form": "html"}).text)
    images = [attributes for tag, attributes in page.tags if tag == "img"]
    assert len(images) >= 2
    for image in images:
        assert image["alt"]
        assert "<svg" in base64.b64decode((image["src"] or "").partition(",")[2]).decode()


def test_the_pdf_has_the_text_of_the_page(client: httpx.Client, link: str) -> None:
    response = client.get(link, headers={"accept": "application/pdf"})
    assert response.headers["content-type"] == "application/pdf"
    assert response.headers["content-disposition"].endswith('.pdf"')
    pages = pypdf.PdfReader(io.BytesIO(response.content)).pages
    text = "".join("".join(page.extract_text() for page in pages).split())
    for figure in ("13.80TB", "50.55s", "19.17GB/s", "mp_rank_TT_PPP/model_optim_rng.pt", "megatron-1t"):
        assert figure in text, figure


def test_the_table_has_every_figure_of_the_json_document(client: httpx.Client, link: str) -> None:
    report = client.get(link, params={"form": "json"}).json()
    rows = {row["field"]: row["value"] for row in csv.DictReader(io.StringIO(client.get(f"{link}?form=csv").text))}
    assert rows["write.seconds"] == repr(report["write"]["seconds"])
    assert rows["layout.rank_classes[1].num_ranks"] == str(report["layout"]["rank_classes"][1]["num_ranks"])
    assert len(rows) == leaves(report)


def leaves(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(leaves, value.values()))
    return sum(map(leaves, value)) if isinstance(value, list) else 1


@pytest.mark.parametrize("accept", [None, "*/*", "application/json", "text/html;q=0.1, application/json"])
def test_programs_get_json(client: httpx.Client, link: str, accept: str | None) -> None:
    response = client.get(link, headers={"accept": accept} if accept else {})
    assert response.json() == answer(scenario_from(REFERENCE_SCENARIO)).model_dump(mode="json")
    assert response.headers["vary"] == "Accept, Accept-Encoding"


def test_forms_that_do_not_exist_are_refused_by_name(client: httpx.Client, link: str) -> None:
    refused = client.get(link, headers={"accept": "image/png"})
    assert (refused.status_code, refused.json()["code"]) == (406, "not-acceptable")
    assert "text/html" in refused.json()["detail"]
    unknown = client.get(link, params={"form": "docx"})
    assert (unknown.status_code, unknown.json()["code"]) == (422, "invalid-input")


def test_a_drawn_report_is_a_heavy_question_and_figures_are_not(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    arguments = ("--port", "0", "--database-url", url, "--compute-seconds", "1ms")
    with (
        serving(tmp_path / "log", *arguments) as (_, address),
        httpx.Client(base_url=address, timeout=SECONDS_UNTIL_STUCK) as client,
    ):
        body = {"name": "a", "scenario": REFERENCE_SCENARIO}
        saved = client.post("/v1/scenarios", json=body, headers=bearer(created_token(url, "a"))).headers["location"]
        refused = client.get(f"{saved}/report?form=html")
        assert (refused.status_code, refused.json()["code"]) == (422, "takes-too-long")
        assert "takes longer than 0.001 seconds" in refused.json()["detail"]
        assert "Prefer: respond-async" in refused.json()["errors"][0]["remedy"]
        assert client.get(f"{saved}/report?form=csv").status_code == 200


QUESTIONS = {f"/v1/{entry.question.route.path}": entry.question for entry in registry.QUESTIONS.values()}
FIGURES: dict[str, tuple[str, ...]] = {
    "/v1/sizings": ("13.80 TB", "19.17 GB/s", "Meets the target"),
    "/v1/requirements": ("What the targets need", "19.17 GB/s", "Meets all targets"),
    "/v1/comparisons": ("Inputs that differ", "273.0 GB/s", "Meets the target"),
    "/v1/layouts": ("10 layouts fit on 16,384 GPUs", "largest rank"),
    "/v1/rematerializations": ("Compute 1 layer per stage again: 2.78 % more compute", "fewest layers"),
    "/v1/stages": ("8 stages on 2 kinds of nodes", "dgx-a100", "node-partition"),
    "/v1/clusters": ("41 jobs on", "Stall of a save", "To buy"),
    "/v1/simulations": ("goodput, simulated", "standard error"),
    "/v1/decisions": ("costs least", "GPU-hours", "Ledger"),
    "/v1/sensitivities": ("Lost time", "varied"),
    "/v1/techniques": ("8-bit Adam", "adam-8bit", "What does not apply here"),
    "/v1/sweeps": ("Pareto front", "best rows"),
}
"""What the pages of questions say."""


def example_of(path: str) -> dict[str, Any]:
    return dict(QUESTIONS[path].quick_example or QUESTIONS[path].example)


@pytest.mark.parametrize(
    "path",
    spread(
        QUESTIONS,
        by_default=["/v1/sizings", "/v1/requirements", "/v1/simulations", "/v1/sensitivities", "/v1/manifests"],
    ),
)
def test_a_question_that_is_not_saved_gets_a_page_or_a_pdf_by_accept(client: httpx.Client, path: str) -> None:
    question, figures = example_of(path), FIGURES.get(path, ())
    page = client.post(path, json=question, headers={"accept": "text/html,*/*;q=0.8"})
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "script-src" not in page.headers["content-security-policy"]
    said = re.sub(r"\s+", " ", Page(page.text).words)
    assert "Saved" not in said
    document = client.post(path, json=question, headers={"accept": "application/pdf"})
    assert (document.status_code, document.headers["content-type"]) == (200, "application/pdf")
    assert document.headers["vary"] == "Accept"
    pages = pypdf.PdfReader(io.BytesIO(document.content)).pages
    text = "".join("".join(page.extract_text() for page in pages).split())
    for figure in figures:
        assert figure in said
        assert "".join(figure.split()) in text


@pytest.mark.parametrize("path", QUESTIONS)
def test_a_question_that_is_not_saved_is_answered_in_words_for_who_shows_it(client: httpx.Client, path: str) -> None:
    question, figures = example_of(path), FIGURES.get(path, ())
    response = client.post(path, json=question, headers={"accept": PRESENTATION})
    assert (response.status_code, response.headers["content-type"]) == (200, PRESENTATION)
    assert Presentation.model_validate_json(response.content).kind
    assert [figure for figure in figures if figure not in response.text.replace("\\n", " ")] == []


@pytest.mark.parametrize("accept", [None, "text/html;q=0.1, application/json"])
@pytest.mark.parametrize("path", QUESTIONS)
def test_programs_get_json_of_a_question_that_is_not_saved(client: httpx.Client, path: str, accept: str | None) -> None:
    response = client.post(path, json=example_of(path), headers={"accept": accept} if accept else {})
    assert response.headers["content-type"] == "application/json"
    assert isinstance(response.json(), dict)
    assert response.headers["vary"] == "Accept, Accept-Encoding"


@pytest.mark.parametrize("path", QUESTIONS)
def test_only_the_forms_that_the_document_names_are_sent(client: httpx.Client, path: str) -> None:
    named = client.get("/openapi.json").json()["paths"][path]["post"]["responses"]
    known = {"application/json", "text/html", "application/pdf", PRESENTATION}
    known |= {"text/csv"} if QUESTIONS[path].route.csv else set()
    assert set(named["200"]["content"]) == known
    assert "406" in named
    for kind in {"image/png", "text/csv"} - known:
        refused = client.post(path, json=example_of(path), headers={"accept": kind})
        assert (refused.status_code, refused.json()["code"]) == (406, "not-acceptable")


def test_the_table_of_a_question_that_is_not_saved_has_every_figure(client: httpx.Client) -> None:
    table = client.post("/v1/sizings", json=REFERENCE_SCENARIO, headers={"accept": "text/csv"})
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert len(rows) == leaves(client.post("/v1/sizings", json=REFERENCE_SCENARIO).json())


def test_a_scenario_without_an_answer_is_refused_in_every_form(client: httpx.Client) -> None:
    for accept in ("application/json", "text/html", "application/pdf"):
        wrong = {"model": {"preset": "gpt2"}, "parallelism": {"tensor": 7}}
        refused = client.post("/v1/sizings", json=wrong, headers={"accept": accept})
        assert (refused.status_code, refused.headers["content-type"]) == (422, "application/problem+json")


def test_no_text_in_a_table_is_a_formula_to_a_spreadsheet_and_numbers_stay() -> None:
    texts = ["=1", "+1", "-1", "@x", "\tx", "\rx", "a=b"]
    heading, row = csv.reader(io.StringIO(table_text(["=a", "b"], [[*texts, -1.5, -2, None]]), newline=""))
    assert heading == ["'=a", "b"]
    assert row == ["'=1", "'+1", "'-1", "'@x", "'\tx", "'\rx", "a=b", "-1.5", "-2", ""]
