"""Client of a request, as far as its address identifies it: rates, bodies and quick answers are counted by address."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Callable

from starlette.types import Scope

_ADDRESSES_KEPT = 1_000
"""Max addresses of which is kept whether they are proxies."""
_IPV6_NETWORK_BITS = 64
"""The network of one link (RFC 4291, 2.5.1): a client may take any address in it."""


def trusted_by(proxies: str) -> Callable[[str], bool]:
    """Return a function that tells whether an address is one of these proxies.

    `proxies`: addresses or networks, separated by commas; `*` for all.

    >>> is_trusted = trusted_by("10.0.0.0/8, 2001:db8::1")
    >>> is_trusted("10.1.2.3"), is_trusted("127.0.0.1"), trusted_by("")("127.0.0.1")
    (True, False, False)
    """
    networks = [ipaddress.ip_network(part.strip()) for part in proxies.split(",") if part.strip() not in ("", "*")]

    @functools.lru_cache(maxsize=_ADDRESSES_KEPT)
    def is_trusted(host: str) -> bool:
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return any(address in network for network in networks)

    return (lambda _: True) if proxies == "*" else is_trusted


def client_of(scope: Scope) -> str:
    """Return the client of a connection: its address, or the IPv6 network that one client has to itself."""
    return client_at(str((scope.get("client") or ("",))[0]))


def client_at(host: str) -> str:
    """Name the client at an address: the address, or its IPv6 network.

    >>> client_at("192.0.2.7"), client_at("2001:db8::7"), client_at("")
    ('192.0.2.7', '2001:db8::/64', '')
    """
    if ":" not in host:
        return host
    try:
        return str(ipaddress.ip_network((host.partition("%")[0], _IPV6_NETWORK_BITS), strict=False))
    except ValueError:
        return host
