"""The question that docs/extending.md adds: a folder and an entry, and every front end asks it."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from service_client.client import Client
from sizing.questions.registry import QUESTIONS, QuestionEntry
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from tests.service import conftest
from tests.sizing.questions.ship import question as toy
from tests.sizing.questions.ship.question import EXAMPLE, ShipReport, ShipRequest, shipped
from tests.testbed.processes import SECONDS_UNTIL_STUCK

SHIP: QuestionEntry[ShipRequest, ShipReport] = QuestionEntry(
    "ship", "Say how long a checkpoint takes to another site.", module="tests.sizing.questions.ship.question"
)
PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
WITH_THE_ENTRY = (
    "from sizing.questions.registry import QUESTIONS, QuestionEntry; "
    f"QUESTIONS['ship'] = QuestionEntry(*{tuple(SHIP)!r}); "
)
ANSWER = shipped(ShipRequest.model_validate(EXAMPLE), lambda _: None)


def ckpt_size(*arguments: str) -> str:
    """What `ckpt-size` prints with the entry."""
    program = [sys.executable, "-c", f"{WITH_THE_ENTRY} from sizing.cli.main import main; main()"]
    done = subprocess.run(
        [*program, *arguments], capture_output=True, text=True, timeout=SECONDS_UNTIL_STUCK, check=True
    )
    return done.stdout


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with the entry."""
    folder = tmp_path_factory.mktemp("toy")
    program = [sys.executable, "-c", f"{WITH_THE_ENTRY} from service.cli.main import main; main()"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conftest, "PROGRAM", program)
        database = f"sqlite:///{folder / 'toy.db'}"
        with conftest.serving(folder / "log", "--port", "0", "--database-url", database) as (_, found):
            yield found


def test_the_page_shows_this_question_and_its_entry() -> None:
    page = PAGE.read_text()
    assert f"```python\n{Path(toy.__file__).read_text()}```" in page
    assert f'QuestionEntry("{SHIP.name}", "{SHIP.help}")' in page


def test_the_command_line_lists_it_and_asks_it_with_a_scenario(tmp_path: Path) -> None:
    assert SHIP.help in " ".join(ckpt_size("--help").split())
    page = tmp_path / "shipped.html"
    flags = ("--model", "gpt2", "--link", "10 GB/s")
    assert ckpt_size("ship", *flags, "--report", str(page)).startswith("Shipped in ")
    assert "A checkpoint on its way" in page.read_text()
    printed = ShipReport.model_validate_json(ckpt_size("ship", *flags, "--json"))
    assert printed.seconds == printed.checkpoint_bytes / 10e9


def test_the_client_asks_it_and_takes_types_and_documents(address: str) -> None:
    with Client(address) as client:
        assert client.ask(SHIP, EXAMPLE) == ANSWER
        request = ShipRequest(scenario=scenario_from(REFERENCE_SCENARIO), link_bytes_per_second=12.5e9)
        assert client.ask(SHIP, request) == ANSWER


def test_it_becomes_a_job(address: str) -> None:
    with Client(address) as client:
        job = client.wait_for_job(client.start_job("shipments", EXAMPLE).id)
        assert ShipReport.model_validate_json(client.job_result(job.id)) == ANSWER


def test_it_is_a_page_with_sliders_and_a_pdf(address: str) -> None:
    with httpx.Client(base_url=address, timeout=SECONDS_UNTIL_STUCK) as client:
        for form, start in (("text/html", b"<!doctype html>"), ("application/pdf", b"%PDF-")):
            found = client.post("/v1/shipments", json=EXAMPLE, headers={"accept": form})
            assert (found.status_code, found.content.lower()[: len(start)]) == (200, start.lower())
        shown = client.post(
            "/v1/shipments",
            json=EXAMPLE,
            headers={"accept": "application/vnd.checkpoint-sizing.presentation+json"},
        ).json()
        assert (shown["kind"], len(shown["charts"])) == ("A checkpoint on its way", 1)
        assert shown["sliders"]


def test_the_openapi_document_has_it_with_an_example_of_its_answer(address: str) -> None:
    document = httpx.get(f"{address}/openapi.json", timeout=SECONDS_UNTIL_STUCK).json()
    assert document["paths"]["/v1/shipments"]["post"]["operationId"] == "create_shipment"
    assert document["components"]["schemas"]["ShipReport"]["examples"] == [ANSWER.model_dump(mode="json")]


def test_what_breaks_a_rule_is_said_of_the_field_and_of_the_flag(address: str) -> None:
    refused = httpx.post(f"{address}/v1/shipments", json=EXAMPLE | {"link_bytes_per_second": 0})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "link_bytes_per_second")
    for flags, sentence in ((("--link", "0"), "error: --link is a rate"), ((), "error: --link is required")):
        with pytest.raises(subprocess.CalledProcessError) as failed:
            ckpt_size("ship", "--model", "gpt2", *flags)
        assert (failed.value.returncode, failed.value.stderr.startswith(sentence)) == (2, True), failed.value.stderr


def test_a_question_that_is_about_more_than_a_scenario_cannot_be_quick() -> None:
    with pytest.raises(TypeError, match="is_quick takes a Scenario, not ShipRequest"):
        replace(toy.QUESTION, route=toy.QUESTION.route._replace(is_quick=True))


def test_the_entry_is_the_only_thing_that_the_registry_has_of_it() -> None:
    assert SHIP.name not in QUESTIONS
    assert SHIP.question is toy.QUESTION
