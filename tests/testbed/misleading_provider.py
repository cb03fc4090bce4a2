"""An OpenID Connect provider on loopback that says what a test wants, true or not; nobody has to enter a password."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from joserfc import jwt
from joserfc.jwk import KeySet, OctKey, RSAKey
from joserfc.jws import JWSRegistry

SECRET = "secret-of-the-service-at-the-provider"  # noqa: S105 - of a provider that lives as long as a test


@dataclass
class MisleadingProvider:
    """What it says of itself and of whoever logs in; a test changes that."""

    issuer: str = ""
    named: str | None = None
    """What it calls itself, where that is not its issuer."""
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, auto_kid=True))
    signing_key: RSAKey | OctKey | None = None
    """What it signs with, where that is not its key."""
    alg: str = "RS256"
    claims: dict[str, Any] = field(default_factory=dict)
    """Beside, or instead of, those of a login that is in order. None takes one away."""
    userinfo: dict[str, Any] = field(default_factory=dict)
    nonce: str = ""
    challenge: str = ""
    """PKCE's, of the login under way."""
    codes_used: set[str] = field(default_factory=set)
    is_broken: bool = False

    def reset(self) -> None:
        """Say the truth again, and forget who has logged in."""
        in_order = MisleadingProvider(issuer=self.issuer, key=self.key)
        for name, value in vars(in_order).items():
            setattr(self, name, value)

    def metadata(self) -> dict[str, Any]:
        """Its discovery document."""
        paths = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "jwks"}
        paths["userinfo_endpoint"] = "userinfo"
        return {
            "issuer": self.named or self.issuer,
            "id_token_signing_alg_values_supported": ["none", "HS256", "RS256"],
            **{name: f"{self.issuer}/{path}" for name, path in paths.items()},
        }

    def token(self, form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        """The answer to a code: once, and only to who began the login (RFC 7636, section 4.6)."""
        (code,), (verifier,) = form["code"], form["code_verifier"]
        digest = _base64(hashlib.sha256(verifier.encode()).digest())
        if code in self.codes_used or digest != self.challenge:
            return 400, {"error": "invalid_grant"}
        self.codes_used.add(code)
        return 200, {"access_token": "opaque", "token_type": "Bearer", "expires_in": 3600, "id_token": self._id_token()}

    def _id_token(self) -> str:
        in_order = {
            "iss": self.issuer,
            "sub": "subject-of-alice",
            "aud": "sizing",
            "iat": int(time.time()),
            "exp": int(time.time()) + 60,
            "nonce": self.nonce,
            "preferred_username": "alice",
            "groups": ["team"],
        }
        claims = {name: value for name, value in (in_order | self.claims).items() if value is not None}
        if self.alg == "none":
            parts = ({"alg": "none"}, claims)
            return "".join(f"{_base64(json.dumps(part).encode())}." for part in parts)
        registry = JWSRegistry(algorithms=[self.alg], strict_check_header=False)
        header = {"alg": self.alg, "kid": self.key.kid}
        return jwt.encode(header, claims, self.signing_key or self.key, registry=registry)


def _base64(content: bytes) -> str:
    """As RFC 7515, section 2, has it."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


@contextmanager
def misleading_provider() -> Iterator[MisleadingProvider]:
    """The provider, which answers until the end of the block."""
    provider = MisleadingProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/.well-known/openid-configuration":
                self._answer(200, provider.metadata())
            elif self.path == "/jwks":
                self._answer(200, dict(KeySet([provider.key]).as_dict(private=False)))
            else:
                self._answer(200, provider.userinfo)

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
            self._answer(*provider.token(form))

        def _answer(self, status: int, document: dict[str, Any]) -> None:
            content = b"<html>Bad gateway" if provider.is_broken else json.dumps(document).encode()
            self.send_response(502 if provider.is_broken else status)
            self.send_header("content-type", "text/html" if provider.is_broken else "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider.issuer = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()
