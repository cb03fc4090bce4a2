"""Sessions of people who logged in: signed cookies, so that every worker and instance knows them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from fastapi import Request, Response
from itsdangerous import BadData, URLSafeTimedSerializer

from service.database.people import find_person
from service.database.tables import PersonRow
from service.errors import CrossOrigin
from service.settings import Settings

SECONDS_TO_LOG_IN = 600
"""Max time of a login: from the page of the service to that of the provider, with password and second factor, and
back."""
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class SignedCookie:
    """Signed cookie: only the holder of the session key can make it, and it is valid for some time.

    Browsers send it with requests of the service's own pages alone, and no script reads it.
    """

    def __init__(self, name: str, settings: Settings, *, seconds: float) -> None:
        self._is_secure = settings.public_url.startswith("https://")
        self.name = f"__Host-{name}" if self._is_secure else name
        self._seconds = int(seconds)
        keys = [key.strip() for key in settings.session_key.split(",")]
        self._serializer = URLSafeTimedSerializer(keys[::-1], salt=name)  # it signs with the last

    def read(self, request: Request) -> tuple[Any, datetime] | None:
        """Return the content of the cookie and when it was set; None without a valid one."""
        cookie = request.cookies.get(self.name, "")
        try:
            content, at = self._serializer.loads(cookie, max_age=self._seconds, return_timestamp=True)
        except BadData:
            return None
        return content, at

    def set(self, response: Response, content: object) -> None:
        """Set the cookie in the browser."""
        value = str(self._serializer.dumps(content))
        response.set_cookie(
            self.name,
            value,
            max_age=self._seconds,
            secure=self._is_secure,
            httponly=True,
            samesite="strict",
        )

    def delete(self, response: Response) -> None:
        """Delete the cookie from the browser."""
        response.delete_cookie(self.name, secure=self._is_secure, httponly=True, samesite="strict")


class Sessions:
    """Cookies of the application: of people's sessions, and of logins under way."""

    def __init__(self, settings: Settings) -> None:
        self.people = SignedCookie("ckpt-session", settings, seconds=settings.session_seconds)
        self.logins = SignedCookie("ckpt-login", settings, seconds=SECONDS_TO_LOG_IN)
        self._lasting = timedelta(seconds=settings.session_seconds)
        self.origin = "{0.scheme}://{0.netloc}".format(urlsplit(settings.public_url))

    def begin(self, response: Response, person: PersonRow) -> None:
        """Begin a person's session in the browser."""
        self.people.set(response, [person.token_id, person.sessions])

    def person_of(self, request: Request) -> tuple[PersonRow, datetime] | None:
        """Return the person of the browser's session and its end; None without a login. Raises CrossOrigin."""
        cookie = self.people.read(request)
        if cookie is None:
            return None
        if request.method not in _SAFE_METHODS:
            self.require_own_page(request)
        (token_id, sessions), at = cookie
        person = find_person(request.app.state.database, token_id, sessions=sessions)
        return (person, self.end_of(at)) if person else None

    def end_of(self, beginning: datetime) -> datetime:
        """Return the end of a session that began at a time."""
        return beginning + self._lasting

    def require_own_page(self, request: Request) -> None:
        """Refuse a change that a page of another site asks for. Raises CrossOrigin."""
        origin = request.headers.get("origin")
        if origin != self.origin:
            raise CrossOrigin.of(
                "origin",
                f"must be {self.origin} where a login is used",
                value=origin,
                remedy="use a page of this service, or a token",
            )
