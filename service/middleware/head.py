"""HEAD wherever there is GET, as RFC 9110 (section 9.1) demands of every server."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send


class HeadAsGet:
    """Middleware that lets the routes answer HEAD as GET; the server leaves out the content."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and its response back."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        asked: Scope = {**scope, "method": "GET"}  # a copy, for the server looks at its own
        try:
            await self.app(asked, receive, send)
        finally:
            scope["route"] = asked.get("route")
