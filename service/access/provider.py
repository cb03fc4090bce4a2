"""OpenID Connect provider that people log in at: authorization code flow with PKCE (RFC 7636), by Authlib.

What the provider publishes of itself is read anew for each step, so that a new key or address of it counts at once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.starlette_client import OAuth, StarletteOAuth2App
from joserfc.errors import JoseError

from service.access.scopes import INCLUDED
from service.database.names import MAX_NAME_CHARACTERS
from service.database.people import Identity
from service.database.tables import MAX_SUBJECT_CHARACTERS, Scope
from service.errors import LoginFailed, LoginUnavailable
from service.settings import Settings
from sizing.errors import InvalidInput

_SECONDS_TO_ANSWER = 10
"""Max time of each of three requests: who logs in waits for the page meanwhile."""
_SIGNATURES = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
"""Signatures by the provider's private key: "none" is signed by nobody, and HS256 by who has this service's secret."""
_CLAIMS_OF_NAMES = ("preferred_username", "email", "name", "sub")


class Provider:
    """Client of the provider that the settings name."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._redirect_uri = f"{settings.public_url.rstrip('/')}/login"

    async def start(self) -> dict[str, str]:
        """Return the `url` to log in at, with `state`, `nonce` and `code_verifier`, needed when the browser comes back.

        Raises LoginUnavailable.
        """
        async with self._connect() as app:
            login: dict[str, str] = await app.create_authorization_url(self._redirect_uri)
            return login

    async def identity(self, code: str, login: dict[str, str]) -> Identity:
        """Return who logged in, by the code that the browser brought back. Raises LoginUnavailable or LoginFailed."""
        async with self._connect() as app:
            verifier = login["code_verifier"]
            token = await app.fetch_access_token(self._redirect_uri, code=code, code_verifier=verifier)
            claims = await app.parse_id_token(token, login["nonce"], claims_options=self._required_claims())
            if claims is None:
                raise _failed("it brought no id_token")
            if self._settings.oidc_groups_claim not in claims and "userinfo_endpoint" in app.server_metadata:
                further = await app.userinfo(token=token)
                if further.get("sub") != claims["sub"]:  # OpenID Connect Core 1.0, section 5.3.2
                    raise _failed("its userinfo is of another person")
                claims = {**further, **claims}
        return self._read_identity(claims)

    def _read_identity(self, claims: dict[str, Any]) -> Identity:
        """Read name, groups and scope of a person from claims. Raises LoginFailed where no group has a scope here."""
        name = next(str(claims[claim]) for claim in _CLAIMS_OF_NAMES if claims.get(claim))
        claimed = claims.get(self._settings.oidc_groups_claim) or []
        groups = [str(group) for group in ([claimed] if isinstance(claimed, str) else claimed)]
        scope = scope_of(groups, self._settings.oidc_groups)
        if scope is None:
            raise LoginFailed.of(
                self._settings.oidc_groups_claim,
                "must name a group that has a scope here",
                value=", ".join(groups) or None,
                remedy="ask an admin to be put into one",
            )
        printable = "".join(each for each in name if each.isprintable()).strip()[:MAX_NAME_CHARACTERS]
        return Identity(self._settings.oidc_issuer, claims["sub"], printable or claims["sub"], scope)

    def _required_claims(self) -> dict[str, Any]:
        """Return the claims required of an ID token, beside nonce, times, and that it is for this service alone."""

        def is_subject(_: object, subject: object) -> bool:
            return isinstance(subject, str) and 0 < len(subject) <= MAX_SUBJECT_CHARACTERS

        return {
            "iss": {"essential": True, "value": self._settings.oidc_issuer},
            "aud": {"essential": True, "values": [self._settings.oidc_client_id]},
            "sub": {"essential": True, "validate": is_subject},
        }

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[StarletteOAuth2App]:
        """Yield a client of the provider, as it describes itself now. Raises LoginUnavailable or LoginFailed."""
        app = self._client()
        try:
            metadata = await app.load_server_metadata()
            if metadata.get("issuer") != self._settings.oidc_issuer:  # OpenID Connect Discovery 1.0, section 4.3
                raise self._unavailable(f"names itself {metadata.get('issuer')}, which must be the same to the letter")
            known = metadata.get("id_token_signing_alg_values_supported") or ["RS256"]
            metadata["id_token_signing_alg_values_supported"] = [name for name in known if name in _SIGNATURES]
            yield app
        except InvalidInput:
            raise
        except (AuthlibBaseError, JoseError) as error:
            raise _failed(str(error)) from None
        except (httpx2.HTTPError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
            raise self._unavailable(f"does not answer as it should ({error or type(error).__name__})") from None

    def _client(self) -> StarletteOAuth2App:
        secret = self._settings.oidc_client_secret
        named = {"scope": self._settings.oidc_scopes, "code_challenge_method": "S256", "timeout": _SECONDS_TO_ANSWER}
        return OAuth().register(
            "provider",
            client_id=self._settings.oidc_client_id,
            client_secret=secret or None,
            server_metadata_url=f"{self._settings.oidc_issuer.rstrip('/')}/.well-known/openid-configuration",
            client_kwargs=named | ({} if secret else {"token_endpoint_auth_method": "none"}),
        )

    def _unavailable(self, rule: str) -> InvalidInput:
        remedy = "try again later; tokens work meanwhile"
        return LoginUnavailable.of(f"the provider {self._settings.oidc_issuer}", rule, value=None, remedy=remedy)


def _failed(reason: str) -> InvalidInput:
    rule = f"refuses the login, or what it says does not hold ({reason})"
    return LoginFailed.of("the provider", rule, value=None, remedy="log in again")


def scope_of(groups: list[str], mapping: str) -> Scope | None:
    """Return the scope that includes most of the scopes of these groups; None where they have none.

    >>> mapping = "team=write, admins=admin, *=read"
    >>> scope_of(["team"], mapping), scope_of(["team", "admins"], mapping), scope_of([], mapping)
    ('write', 'admin', 'read')
    """
    pairs = [pair.rpartition("=") for pair in mapping.split(",")]
    scopes = {scope.strip() for group, _, scope in pairs if group.strip() in {"*", *groups}}
    held = [scope for scope in INCLUDED if scope in scopes]
    return max(held, key=lambda scope: len(INCLUDED[scope]), default=None)
