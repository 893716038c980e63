"""Where a server may listen: beyond this machine only with users."""

from __future__ import annotations

import ipaddress
import ssl

from tidemill.model.errors import SetupError
from tidemill.serving.access.users import Users

__all__ = ["is_loopback", "require_safe_binding"]


def is_loopback(host: str) -> bool:
    """True for an address that no other machine can reach; a name other than ``localhost`` may stand for any.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("")
    (True, True, True, False, False)
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def require_safe_binding(host: str, users: Users | None, tls: ssl.SSLContext | None) -> str | None:
    """Refuse to listen beyond this machine without users; returns a warning if passwords would be sent openly.

    A door decides once, when it starts, if whoever asks is the owner: where there are no users, on this machine. One
    that has had users goes on to ask for them, also where they are gone.
    """
    if is_loopback(host):
        return None
    if not users:
        raise SetupError(
            f"a server on {host} needs users",
            detail="Anybody who can reach it would be the owner.",
            hint="Add one with: tidemill user add NAME --role owner. Or listen on 127.0.0.1.",
        )
    if tls is None:
        return f"{host} is served without TLS: tokens and rows can be read on the way, unless a proxy encrypts them"
    return None
