"""SCRAM-SHA-256: a user proves to know the password without ever telling it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tidemill.serving.pgwire import messages as m
from tidemill.serving.pgwire.errors import PgError

__all__ = ["WrongPassword", "prove"]

MECHANISM = "SCRAM-SHA-256"
SASL, CONTINUE, FINAL = 10, 11, 12


class WrongPassword(Exception):
    """A client that does not know the password, or does not speak SCRAM."""


async def prove(
    verifier: Any, send: Callable[[bytes], None], answer: Callable[[], Awaitable[bytes]], allow: Callable[[], None]
) -> None:
    """Have a client prove that it knows the password behind a ``verifier``; ``WrongPassword`` if it does not.

    ``send`` takes what the client is told, and ``answer`` gives what it says. ``allow`` is called when the proof is
    there, and may still refuse to look at it: then nobody can try more passwords by trying many at once.
    """
    from scramp import ScramException, ScramMechanism

    server = ScramMechanism(MECHANISM).make_server(lambda _: tuple(verifier))
    send(m.authentication(SASL, MECHANISM.encode() + b"\0\0"))
    mechanism, first = m.read_sasl_start(await answer())
    if mechanism != MECHANISM:
        raise PgError("28000", f"the client asks for {mechanism[:40]}, and the server offers {MECHANISM}")
    try:
        _set_client_first(server, first.decode())
        send(m.authentication(CONTINUE, server.get_server_first().encode()))
        proof = await answer()
        allow()
        server.set_client_final(proof.decode())
    except (ScramException, UnicodeDecodeError):
        raise WrongPassword from None
    send(m.authentication(FINAL, server.get_server_final().encode()))


def _set_client_first(server: Any, text: str) -> None:
    """Hand over what the client says first. PostgreSQL's clients leave the name out, as it is in the startup packet.

    ``scramp`` wants one, so it gets one to read; what both sides sign is the message as it was sent.
    """
    header, comma, bare = text.partition(",,")
    if not bare.startswith("n=,"):
        server.set_client_first(text)
        return
    server.set_client_first(f"{header}{comma}n=user,{bare[3:]}")
    server.client_first_bare = bare
