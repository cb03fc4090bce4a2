"""Serves Canaille, an OpenID Connect provider, on a port of this machine until stopped. It runs in .venv-oidc.

Alice is in the group storage-team, Olga in storage-admins, and Norbert in none; passwords are NAME-s-password. The
keys that sign are new at every start.
"""

import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIServer, make_server

from canaille import create_app
from canaille.app import models
from canaille.backends import Backend

GROUPS = {"alice": "storage-team", "olga": "storage-admins", "norbert": None}
SETTINGS = {
    "SECRET_KEY": "of-the-tests-and-of-nothing-else",
    "PREFERRED_URL_SCHEME": "http",
    "CANAILLE": {"DATABASE": "memory", "JAVASCRIPT": False, "CAPTCHA_ENABLED": False},
    "CANAILLE_OIDC": {},
}


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


def fill(service: str) -> None:
    """People, their groups, and the service that they log in to."""
    for name, group in GROUPS.items():
        person = models.User(
            user_name=name,
            password=f"{name}-s-password",
            emails=[f"{name}@example.org"],
            family_name=name.title(),
            formatted_name=name.title(),
            display_name=name,
        )
        Backend.instance.save(person)
        if group:
            Backend.instance.save(models.Group(display_name=group, members=[person]))
    client = models.Client(
        client_id="sizing",
        client_secret="secret-of-the-service",  # noqa: S106 - of a provider that lives as long as a test
        client_name="sizing",
        client_uri=service,
        redirect_uris=[f"{service}/login"],
        scope=["openid", "profile", "email", "groups"],
        grant_types=["authorization_code"],
        response_types=["code"],
        token_endpoint_auth_method="client_secret_basic",  # noqa: S106 - the name of a method
    )
    Backend.instance.save(client)
    client.audience = [client]
    Backend.instance.save(client)


if __name__ == "__main__":
    app = create_app(SETTINGS)
    with app.app_context(), Backend.instance.session():
        fill(sys.argv[2])
    make_server("127.0.0.1", int(sys.argv[1]), app, Server).serve_forever()
