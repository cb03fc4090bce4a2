"""People log in with a real browser at a real provider, on two instances of two workers each."""

from __future__ import annotations

import contextlib
import random
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.service.conftest import bearer, created_token, serving
from tests.service.test_page import MILLISECONDS_UNTIL_STUCK, answered
from tests.testbed.oidc_provider import canaille
from tests.testbed.processes import SECONDS_UNTIL_STUCK

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Page

    from tests.conftest import Testbed


pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def ports() -> tuple[int, int]:
    """Of the provider and of the service: each has to know the other's before it starts.

    Below those that the system hands out, so that nobody is given them meanwhile.
    """
    free = filter(_is_free, random.sample(range(20_000, 32_000), 100))
    return next(free), next(free)


def _is_free(port: int) -> bool:
    with socket.socket() as tried, contextlib.suppress(OSError):
        tried.bind(("127.0.0.1", port))
        return True
    return False


@pytest.fixture
def start_provider(ports: tuple[int, int], tmp_path: Path) -> Callable[[], AbstractContextManager[str]]:
    """Starts the provider, with new keys each time."""
    return lambda: canaille(ports[0], service=f"http://127.0.0.1:{ports[1]}", log=tmp_path / "provider")


@pytest.fixture
def provider(
    testbed: Testbed, start_provider: Callable[[], AbstractContextManager[str]]
) -> Iterator[contextlib.ExitStack]:
    """The running provider, which a test can end."""
    with contextlib.ExitStack() as stack:
        testbed(entered(stack, start_provider()))
        yield stack


@contextlib.contextmanager
def entered(stack: contextlib.ExitStack, part: AbstractContextManager[str]) -> Iterator[str]:
    yield stack.enter_context(part)


@dataclass
class Instances:
    """Two instances of the service for the same people."""

    address: str
    other: str
    database_url: str
    log: Path
    provider: Callable[[], AbstractContextManager[str]]


@pytest.fixture
def instances(
    provider: contextlib.ExitStack,
    start_provider: Callable[[], AbstractContextManager[str]],
    ports: tuple[int, int],
    tmp_path: Path,
) -> Iterator[Instances]:
    assert provider
    database_url = f"sqlite:///{tmp_path}/sizing.sqlite3"
    arguments = ["--database-url", database_url, "--workers", "2", "--require-login", "--requests-per-second", "0"]
    arguments += ["--public-url", f"http://127.0.0.1:{ports[1]}", "--session-key", "for-the-tests-alone-" * 2]
    arguments += ["--oidc-issuer", f"http://127.0.0.1:{ports[0]}/", "--oidc-client-id", "sizing"]
    arguments += ["--oidc-client-secret", "secret-of-the-service", "--oidc-scopes", "openid profile email groups"]
    arguments += ["--oidc-groups", "storage-team=write,storage-admins=admin"]
    with (
        serving(tmp_path / "log", "--port", str(ports[1]), *arguments) as (_, address),
        serving(tmp_path / "other", "--port", "0", *arguments) as (_, other),
    ):
        yield Instances(address, other, database_url, tmp_path / "log", start_provider)


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context()
    context.set_default_timeout(MILLISECONDS_UNTIL_STUCK)
    yield context
    context.close()


def log_in(page: Page, person: str) -> None:
    """From a page of the service to the provider and back."""
    page.get_by_role("button", name="Log in").click()
    page.locator("input[name=login]").fill(person)
    page.locator("input[name=login]").press("Enter")
    page.locator("input[name=password]").fill(f"{person}-s-password")
    page.locator("input[name=password]").press("Enter")


def test_a_person_logs_in_works_and_logs_out(context: BrowserContext, instances: Instances) -> None:
    said: list[str] = []
    page = context.new_page()
    page.goto(f"{instances.address}/scenarios#from-here")
    page.locator("#problems .problem").wait_for()
    assert "This needs that you log in, or a token" in page.locator("#problems").inner_text()
    context.on("console", lambda message: said.append(f"{message.text} {message.location}"))
    log_in(page, "alice")
    page.get_by_text("You are logged in as alice, scope write.").wait_for()
    assert page.url == f"{instances.address}/scenarios#from-here"
    answered(page)
    assert Axe().run(page).violations_count == 0
    assert page.evaluate("document.cookie") == ""
    assert not page.get_by_role("link", name="Audit log").is_visible()
    page.goto(f"{instances.address}/storage-systems")
    page.get_by_label("Name").fill("of-alice")
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_role("link", name="of-alice").wait_for()
    page.goto(f"{instances.address}/")
    page.locator(".verdict").wait_for()
    own = [line for line in said if instances.address in line or "Security Policy" in line]
    assert own == [], "the policy of the pages holds"
    the_same_on_every_worker_of_both(context, instances)
    page.get_by_role("button", name="Log out alice").click()
    page.get_by_role("button", name="Log in").wait_for()
    assert [cookie["name"] for cookie in context.cookies() if "ckpt" in cookie.get("name", "")] == []
    code = re.compile(r"[?&](code|state)=")
    assert not code.search(instances.log.read_text()), "no code is in the log"


def the_same_on_every_worker_of_both(context: BrowserContext, instances: Instances) -> None:
    (session,) = [cookie for cookie in context.cookies() if cookie.get("name") == "ckpt-session"]
    assert (session["httpOnly"], session["sameSite"]) == (True, "Strict")
    own = {"cookie": f"ckpt-session={session['value']}"}
    for address in (instances.address, instances.other):
        for _ in range(8):  # each on a connection of its own, which any worker takes
            found = httpx.get(f"{address}/v1/whoami", headers=own, timeout=SECONDS_UNTIL_STUCK)
            assert (found.json()["name"], found.json()["has_logged_in"]) == ("alice", True)
    refused = httpx.post(f"{instances.address}/v1/sizings", json={}, headers=own, timeout=SECONDS_UNTIL_STUCK)
    assert refused.json()["code"] == "cross-origin"


def test_an_admin_sees_who_logged_in(context: BrowserContext, instances: Instances) -> None:
    page = context.new_page()
    page.goto(f"{instances.address}/validation")
    log_in(page, "olga")
    page.get_by_text("You are logged in as olga, scope admin.").wait_for()
    page.get_by_role("link", name="Audit log").click()
    page.get_by_role("row", name="log in with scope admin").wait_for()


def test_a_person_without_a_group_is_told_so(context: BrowserContext, instances: Instances) -> None:
    page = context.new_page()
    page.goto(f"{instances.address}/catalogs")
    log_in(page, "norbert")
    page.get_by_text("groups must name a group that has a scope here").wait_for()
    assert page.url == f"{instances.address}/login"
    page.reload()
    page.get_by_role("button", name="Log in").wait_for()


def test_the_keys_of_the_provider_change_and_it_goes_away_and_comes_back(
    context: BrowserContext, instances: Instances, provider: contextlib.ExitStack
) -> None:
    page = context.new_page()
    page.goto(f"{instances.address}/validation")
    log_in(page, "alice")
    page.get_by_role("button", name="Log out alice").click()
    page.get_by_role("button", name="Log in").wait_for()
    provider.close()
    page.get_by_role("button", name="Log in").click()
    page.get_by_text("tokens work meanwhile").wait_for()
    use = created_token(instances.database_url, "while-it-is-down", scope="read")
    models = httpx.get(f"{instances.address}/v1/models", headers=bearer(use), timeout=SECONDS_UNTIL_STUCK)
    assert models.status_code == 200
    provider.enter_context(instances.provider())
    context.clear_cookies()
    log_in(page, "alice")
    page.get_by_role("button", name="Log out alice").wait_for()
