"""Logins: what a provider or a browser says is believed only where it holds, and a session does what its groups allow."""

import itertools
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from fastapi import FastAPI
from itsdangerous import TimestampSigner
from joserfc.jwk import OctKey, RSAKey
from sqlalchemy import select
from starlette.testclient import TestClient

from service.access.sessions import SECONDS_TO_LOG_IN
from service.app import create_app
from service.database.audit import AuditFilter, list_audit_log
from service.database.tables import Base, TokenRow
from service.database.tokens import NewToken, create_token, revoke_token
from service.settings import Settings
from sizing.errors import InvalidInput
from sizing.scenario import REFERENCE_SCENARIO
from tests.service.conftest import Terminal, bearer
from tests.testbed.misleading_provider import SECRET, MisleadingProvider, misleading_provider

PUBLIC = "https://sizing.example.org"
ORIGIN = {"origin": PUBLIC}
BODY = {"name": "of a person", "scenario": REFERENCE_SCENARIO}
KEYS = ("of-the-tests-" * 3, "an-earlier-one-" * 3)

_codes = itertools.count()


@pytest.fixture(scope="module")
def provider_of_module() -> Iterator[MisleadingProvider]:
    with misleading_provider() as made:
        yield made


@pytest.fixture
def provider(provider_of_module: MisleadingProvider) -> MisleadingProvider:
    """The provider, which says the truth until a test makes it lie."""
    provider_of_module.reset()
    return provider_of_module


@pytest.fixture(scope="module")
def settings(provider_of_module: MisleadingProvider, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    provider = provider_of_module
    return Settings(
        database_url=f"sqlite:///{tmp_path_factory.mktemp('logins')}/x.db",
        requests_per_second=0,
        public_url=PUBLIC,
        oidc_issuer=provider.issuer,
        oidc_client_id="sizing",
        oidc_client_secret=SECRET,
        oidc_groups="team=write, boss=admin",
        session_key=",".join(KEYS),
        require_login=True,
    )


@pytest.fixture(scope="module")
def app_of_module(settings: Settings) -> FastAPI:
    return create_app(settings)


@pytest.fixture
def app(app_of_module: FastAPI) -> FastAPI:
    """The service, with nobody and nothing in its database."""
    with app_of_module.state.database.writing() as session:
        for table in reversed(Base.metadata.sorted_tables):
            session.execute(table.delete())
    return app_of_module


@pytest.fixture
def browser(app: FastAPI) -> Iterator[TestClient]:
    with visiting(app) as client:
        yield client


def visiting(app: FastAPI) -> TestClient:
    """A browser, which keeps cookies, and whose requests come from the pages of the service."""
    return TestClient(app, base_url=PUBLIC, headers=ORIGIN)


def begun(browser: TestClient, provider: MisleadingProvider) -> dict[str, str]:
    """What the provider would put into the address that it sends the browser back to."""
    started = browser.post("/session/login", json={})
    assert started.status_code == 200, started.text
    asked = {name: values[0] for name, values in parse_qs(urlsplit(started.json()["url"]).query).items()}
    assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
    assert asked["redirect_uri"] == f"{PUBLIC}/login"
    provider.nonce, provider.challenge = asked["nonce"], asked["code_challenge"]
    return {"code": f"code-{next(_codes)}", "state": asked["state"]}


def log_in(browser: TestClient, provider: MisleadingProvider, **claims: Any) -> httpx2.Response:
    given = begun(browser, provider)
    provider.claims = claims
    return browser.post("/session", json=given)


def holder(browser: TestClient) -> Any:
    return browser.get("/session").json()["holder"]


def refused(answer: httpx2.Response, code: str = "login-failed") -> str:
    assert answer.json()["code"] == code, answer.text
    assert not [name for name in answer.cookies if "session" in name]
    return str(answer.json()["detail"])


def test_who_logs_in_may_do_what_their_group_may(browser: TestClient, provider: MisleadingProvider) -> None:
    assert browser.post("/v1/scenarios", json=BODY).status_code == 401
    assert "log in, or send the header" in browser.get("/v1/models").json()["detail"]
    answered = log_in(browser, provider)
    assert (answered.status_code, answered.json()["name"], answered.json()["scope"]) == (200, "alice", "write")
    who = browser.get("/v1/whoami").json()
    assert who == holder(browser) | {"expires_at": who["expires_at"]}
    assert (who["has_logged_in"], who["systems"]) == (True, None)
    ends_in = datetime.fromisoformat(who["expires_at"]) - datetime.now(UTC)
    assert 7.9 * 3600 < ends_in.total_seconds() <= 8 * 3600
    saved = browser.post("/v1/scenarios", json=BODY)
    assert saved.status_code == 201
    assert browser.post(f"{saved.headers['location']}/links", json={}).json()["made_by"] == "alice"
    assert browser.get("/v1/audit-log").json()["code"] == "missing-scope"
    log_in(browser, provider, groups=["team", "boss"])
    assert holder(browser)["scope"] == "admin"
    assert browser.get("/v1/audit-log").status_code == 200


def test_the_same_person_is_the_same_owner_at_every_login(
    app: FastAPI, browser: TestClient, provider: MisleadingProvider
) -> None:
    log_in(browser, provider)
    saved = browser.post("/v1/scenarios", json=BODY).headers["location"]
    with visiting(app) as elsewhere:
        log_in(elsewhere, provider, preferred_username="alice-married")
        assert holder(elsewhere)["name"] == "alice"
        assert elsewhere.delete(saved).status_code == 204


def test_a_name_that_is_taken_makes_nobody_the_owner_of_what_is_not_theirs(
    app: FastAPI, browser: TestClient, provider: MisleadingProvider
) -> None:
    token = create_token(app.state.database, NewToken(name="alice", scope="write"))
    saved = browser.post("/v1/scenarios", json=BODY, headers=bearer(token)).headers["location"]
    assert log_in(browser, provider).json()["name"] == "alice (subject-of-alice)"
    assert browser.delete(saved).json()["code"] == "missing-scope"
    with visiting(app) as other:
        assert log_in(other, provider, sub="another", preferred_username="alice").json()["name"] == "alice (another)"


def test_cookies_are_for_the_pages_of_the_service_alone(browser: TestClient, provider: MisleadingProvider) -> None:
    given = begun(browser, provider)
    set_by = browser.post("/session", json=given).headers.get_list("set-cookie")
    (session,) = [cookie for cookie in set_by if cookie.startswith("__Host-ckpt-session=")]
    assert set(session.split("; ")[1:]) == {"HttpOnly", "Max-Age=28800", "Path=/", "SameSite=strict", "Secure"}
    assert any(re.match('__Host-ckpt-login="?"?; ', cookie) and "Max-Age=0" in cookie for cookie in set_by)


@pytest.mark.parametrize("origin", ["https://evil.example.org", "null", "http://sizing.example.org", None])
def test_a_page_of_another_site_changes_nothing_with_the_cookie(
    browser: TestClient, provider: MisleadingProvider, origin: str | None
) -> None:
    log_in(browser, provider)
    del browser.headers["origin"]
    headers = {} if origin is None else {"origin": origin}
    requests: list[tuple[str, str, Any]] = [
        ("POST", "/v1/scenarios", BODY),
        ("POST", "/v1/sizings", REFERENCE_SCENARIO),
    ]
    requests += [("DELETE", "/session", None), ("POST", "/session", {}), ("POST", "/session/login", {})]
    for method, path, body in requests:
        answered = browser.request(method, path, json=body, headers=headers)
        assert (answered.status_code, answered.json()["code"]) == (403, "cross-origin"), path
    assert browser.get("/v1/models").status_code == 200
    assert holder(browser)["name"] == "alice"


def test_a_token_goes_before_a_login_and_needs_no_origin(
    app: FastAPI, browser: TestClient, provider: MisleadingProvider
) -> None:
    log_in(browser, provider)
    token = bearer(create_token(app.state.database, NewToken(name="robot", scope="read")))
    assert browser.get("/v1/whoami", headers=token).json()["name"] == "robot"
    assert browser.post("/v1/scenarios", json=BODY, headers=token).json()["code"] == "missing-scope"
    assert browser.get("/v1/whoami", headers=bearer("ckpt_1_wrong")).status_code == 401
    del browser.headers["origin"]
    assert browser.post("/v1/sizings", json=REFERENCE_SCENARIO, headers=token).status_code == 200


def test_who_logs_out_has_logged_out_everywhere(
    app: FastAPI, browser: TestClient, provider: MisleadingProvider
) -> None:
    log_in(browser, provider)
    kept = dict(browser.cookies)
    with visiting(app) as elsewhere:
        log_in(elsewhere, provider)
        assert browser.delete("/session").status_code == 204
        assert (holder(browser), holder(elsewhere)) == (None, None)
        assert "__Host-ckpt-session" not in browser.cookies
    with visiting(app) as thief:
        thief.cookies.update(kept)
        assert holder(thief) is None
    assert browser.delete("/session").status_code == 204
    assert log_in(browser, provider).status_code == 200


def test_a_session_ends_with_the_persons_token(app: FastAPI, browser: TestClient, provider: MisleadingProvider) -> None:
    log_in(browser, provider)
    revoke_token(app.state.database, "alice")
    assert holder(browser) is None
    assert "must not be revoked" in refused(log_in(browser, provider))


class Later:
    """Time as itsdangerous reads it, which a test moves."""

    seconds = 0

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now = TimestampSigner.get_timestamp
        monkeypatch.setattr(TimestampSigner, "get_timestamp", lambda signer: now(signer) + self.seconds)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Later:
    return Later(monkeypatch)


def test_a_session_ends_by_itself(browser: TestClient, provider: MisleadingProvider, later: Later) -> None:
    log_in(browser, provider)
    later.seconds = 8 * 3600 - 60
    assert holder(browser)["name"] == "alice"
    later.seconds = 8 * 3600 + 60
    assert holder(browser) is None


def test_a_login_that_takes_too_long_is_begun_again(
    browser: TestClient, provider: MisleadingProvider, later: Later
) -> None:
    given = begun(browser, provider)
    later.seconds = SECONDS_TO_LOG_IN + 60
    assert "has begun in the last 10 min" in refused(browser.post("/session", json=given))


@pytest.mark.parametrize("state", ["", "forged", "ö"])
def test_a_forged_state_is_refused(browser: TestClient, provider: MisleadingProvider, state: str) -> None:
    given = begun(browser, provider)
    assert "state must be that of a login" in refused(browser.post("/session", json=given | {"state": state}))
    assert not provider.codes_used, "no code is sent to the provider"


def test_a_login_of_another_browser_is_refused(app: FastAPI, browser: TestClient, provider: MisleadingProvider) -> None:
    of_the_attacker = begun(browser, provider)
    with visiting(app) as victim:
        assert "state must be that of a login" in refused(victim.post("/session", json=of_the_attacker))
        begun(victim, provider)
        assert "state must be that of a login" in refused(victim.post("/session", json=of_the_attacker))


def test_an_address_that_is_replayed_is_refused_with_and_without_its_cookie(
    app: FastAPI, browser: TestClient, provider: MisleadingProvider
) -> None:
    given = begun(browser, provider)
    kept = dict(browser.cookies)
    assert browser.post("/session", json=given).status_code == 200
    assert "state must be that of a login" in refused(browser.post("/session", json=given))
    with visiting(app) as thief:
        thief.cookies.update(kept)
        assert "invalid_grant" in refused(thief.post("/session", json=given))


def test_a_cookie_that_is_forged_or_of_the_other_kind_is_none(
    browser: TestClient, provider: MisleadingProvider
) -> None:
    begun(browser, provider)
    under_way = browser.cookies["__Host-ckpt-login"]
    log_in(browser, provider)
    real = browser.cookies["__Host-ckpt-session"]
    for forged in (under_way, real[:-2], "W10." + real.partition(".")[2], "", "x" * 5000):
        browser.cookies.delete("__Host-ckpt-session")
        browser.cookies.set("__Host-ckpt-session", forged)
        assert holder(browser) is None, forged


FORGED: dict[str, dict[str, Any]] = {
    "another issuer": {"iss": "https://evil.example.org"},
    "no issuer": {"iss": None},
    "for another client": {"aud": "other"},
    "for several clients and not by this one": {"aud": ["sizing", "other"], "azp": "other"},
    "no audience": {"aud": None},
    "another nonce": {"nonce": "of-another-login"},
    "no nonce": {"nonce": None},
    "expired": {"exp": 1_700_000_000},
    "no end": {"exp": None},
    "nobody": {"sub": None},
    "no text": {"sub": 7},
    "too long a subject": {"sub": "x" * 256},
}


@pytest.mark.parametrize("claims", FORGED.values(), ids=FORGED)
def test_an_id_token_that_does_not_hold_is_refused(
    browser: TestClient, provider: MisleadingProvider, claims: dict[str, Any]
) -> None:
    assert "the provider refuses the login, or what it says does not hold" in refused(
        log_in(browser, provider, **claims)
    )
    assert holder(browser) is None


@pytest.mark.parametrize(
    ("alg", "key"),
    [
        ("RS256", lambda: RSAKey.generate_key(2048)),
        ("none", lambda: None),
        ("HS256", lambda: OctKey.import_key(SECRET)),
    ],
    ids=["another key", "no signature", "the secret of the client"],
)
def test_an_id_token_that_the_provider_has_not_signed_is_refused(
    browser: TestClient, provider: MisleadingProvider, alg: str, key: Callable[[], RSAKey | OctKey | None]
) -> None:
    provider.alg, provider.signing_key = alg, key()
    refused(log_in(browser, provider))


def test_a_new_key_of_the_provider_counts_at_once_and_the_old_one_no_longer(
    browser: TestClient, provider: MisleadingProvider
) -> None:
    assert log_in(browser, provider).status_code == 200
    old, provider.key = provider.key, RSAKey.generate_key(2048, auto_kid=True)
    assert log_in(browser, provider).status_code == 200
    provider.signing_key = old
    refused(log_in(browser, provider))


def test_a_provider_that_names_itself_otherwise_is_not_asked(browser: TestClient, provider: MisleadingProvider) -> None:
    given = begun(browser, provider)
    provider.named = "https://evil.example.org"
    assert "which must be the same to the letter" in refused(
        browser.post("/session/login", json={}), "login-unavailable"
    )
    refused(browser.post("/session", json=given), "login-unavailable")
    provider.named = None
    assert "iss must be" in refused(browser.post("/session", json=given | {"iss": "https://evil.example.org"}))
    assert not provider.codes_used


def test_a_provider_that_fails_is_named_and_tokens_and_sessions_go_on(
    settings: Settings, provider: MisleadingProvider
) -> None:
    app = create_app(settings)  # which has counted nothing yet
    browser = visiting(app)
    log_in(browser, provider, sub="subject-of-bob", preferred_username="bob")
    given = begun(browser, provider)
    provider.is_broken = True
    for answer in (browser.post("/session/login", json={}), browser.post("/session", json=given)):
        sentence = refused(answer, "login-unavailable")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert sentence.startswith(f"the provider {provider.issuer} does not answer as it should")
        assert "tokens work meanwhile" in sentence
    assert holder(browser)["name"] == "bob"
    token = create_token(app.state.database, NewToken(name="robot of bob", scope="write"))
    with TestClient(app, base_url=PUBLIC) as program:
        assert program.post("/v1/sizings", json=REFERENCE_SCENARIO, headers=bearer(token)).status_code == 200
        counted = program.get("/metrics", headers=bearer(token)).text
    assert 'ckpt_logins_total{result="unavailable"} 2.0' in counted
    assert 'ckpt_logins_total{result="done"} 1.0' in counted
    assert 'ckpt_logins_total{result="failed"} 0.0' in counted


def test_who_refuses_at_the_provider_is_told_so(browser: TestClient, provider: MisleadingProvider) -> None:
    given = {"state": begun(browser, provider)["state"], "error": "access_denied", "error_description": "No, thanks"}
    assert "refuses the login (No, thanks)" in refused(browser.post("/session", json=given))


@pytest.mark.parametrize(
    ("groups", "scope"),
    [(["team"], "write"), ("boss", "admin"), (["other"], None), ([], None), (None, None), (["te", "am"], None)],
)
def test_groups_give_scopes(
    browser: TestClient, provider: MisleadingProvider, groups: object, scope: str | None
) -> None:
    provider.userinfo = {"sub": "subject-of-alice"}
    answered = log_in(browser, provider, groups=groups)
    if scope is None:
        assert "groups must name a group that has a scope here" in refused(answered)
    else:
        assert answered.json()["scope"] == scope


def test_groups_that_only_userinfo_has_count_where_it_is_of_the_same_person(
    browser: TestClient, provider: MisleadingProvider
) -> None:
    provider.userinfo = {"sub": "subject-of-alice", "groups": ["boss"]}
    assert log_in(browser, provider, groups=None).json()["scope"] == "admin"
    provider.userinfo = {"sub": "subject-of-eve", "groups": ["boss"]}
    assert "its userinfo is of another person" in refused(log_in(browser, provider, groups=None))


def test_who_leaves_a_group_loses_its_scope_at_the_next_login_in_all_sessions(
    app: FastAPI, browser: TestClient, provider: MisleadingProvider
) -> None:
    log_in(browser, provider, groups=["boss"])
    with visiting(app) as elsewhere:
        log_in(elsewhere, provider, groups=["team"])
    assert holder(browser)["scope"] == "write"


def test_sessions_hold_on_every_instance_and_while_keys_are_changed(
    settings: Settings, browser: TestClient, provider: MisleadingProvider
) -> None:
    log_in(browser, provider)
    for keys, is_known in ((KEYS, True), (("a-new-key-" * 4, *KEYS), True), (KEYS[1:], False)):
        other = create_app(settings.model_copy(update={"session_key": ",".join(keys)}))
        with visiting(other) as elsewhere:
            elsewhere.cookies.update(dict(browser.cookies))
            assert (holder(elsewhere) is not None) is is_known


def test_a_login_that_begins_on_one_instance_ends_on_another(
    settings: Settings, browser: TestClient, provider: MisleadingProvider
) -> None:
    given = begun(browser, provider)
    with visiting(create_app(settings)) as elsewhere:
        elsewhere.cookies.update(dict(browser.cookies))
        assert elsewhere.post("/session", json=given).json()["name"] == "alice"
        browser.cookies.update(dict(elsewhere.cookies))
    assert holder(browser)["name"] == "alice"


def test_logins_are_in_the_audit_log_and_nobody_has_the_secret_of_a_person(
    app: FastAPI, browser: TestClient, provider: MisleadingProvider
) -> None:
    log_in(browser, provider)
    browser.post("/v1/storage-systems", json={"name": "audited"})
    browser.delete("/session")
    entries = list_audit_log(app.state.database, AuditFilter(), limit=9, before=None)
    assert [(entry.token and entry.token.name, entry.action) for entry in entries] == [
        ("alice", "log out"),
        ("alice", "create"),
        ("alice", "log in with scope write"),
    ]
    with app.state.database.reading() as session:
        (row,) = session.scalars(select(TokenRow))
    assert browser.get("/v1/whoami", headers=bearer(f"ckpt_{row.id}_")).status_code == 401


def test_no_login_is_offered_where_none_is_set_up(tmp_path: Path) -> None:
    app = create_app(Settings(database_url=f"sqlite:///{tmp_path}/x.db"))
    with visiting(app) as client:
        assert client.get("/session").json() == {"offers_login": False, "holder": None}
        for method, path in (("POST", "/session/login"), ("POST", "/session"), ("DELETE", "/session")):
            answered = client.request(method, path, json=None if method == "DELETE" else {})
            assert (answered.status_code, answered.json()["code"]) == (404, "not-found")
        assert "log in" not in client.post("/v1/scenarios", json=BODY).json()["detail"]


def test_who_visits_is_told_of_a_token_that_does_not_hold(browser: TestClient) -> None:
    assert browser.get("/session").json() == {"offers_login": True, "holder": None}
    assert browser.get("/session", headers=bearer("ckpt_1_x")).status_code == 401
    assert browser.get("/session").headers["cache-control"] == "no-store"


COMPLETE = {
    "oidc_issuer": "https://id.example.org",
    "public_url": PUBLIC,
    "oidc_client_id": "sizing",
    "oidc_groups": "*=read",
    "session_key": "k" * 32,
}


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"public_url": ""}, "oidc_issuer needs more settings"),
        ({"session_key": "", "oidc_groups": ""}, "set CKPT_SERVE_OIDC_GROUPS, CKPT_SERVE_SESSION_KEY"),
        ({"session_key": "short,too"}, "session_key must be secrets of at least 32 characters"),
        ({"oidc_issuer": "http://id.example.org"}, "must begin with https://, or name this machine"),
        ({"public_url": "sizing.example.org"}, "must begin with https://, or name this machine"),
        ({"oidc_groups": "team"}, "must be groups with one of the scopes"),
        ({"oidc_groups": "team=root"}, "must be groups with one of the scopes"),
        ({"oidc_groups": "=read"}, "must be groups with one of the scopes"),
    ],
)
def test_settings_that_make_no_login_are_refused(
    terminal: Terminal, tmp_path: Path, changed: dict[str, str], sentence: str
) -> None:
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in (COMPLETE | changed).items()]
    code, _, errors = terminal(*flags, "--port", "0", "--database-url", f"sqlite:///{tmp_path}/x.db")
    assert code == 2
    assert sentence.replace("oidc_issuer", "--oidc-issuer").replace("session_key", "--session-key") in errors
    assert "short,too" not in errors, "a secret is not shown"


def test_settings_that_are_complete_are_taken() -> None:
    assert Settings(**COMPLETE).oidc_issuer == "https://id.example.org"  # type: ignore[arg-type]  # pydantic converts
    with pytest.raises(InvalidInput):
        Settings(**(COMPLETE | {"session_key": ""}))  # type: ignore[arg-type]  # as above
