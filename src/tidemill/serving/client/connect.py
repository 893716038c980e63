"""``tidemill.connect``: a warehouse by the address of its server."""

from __future__ import annotations

from tidemill.engine.boundary import public_function
from tidemill.serving.client.connection import Connection
from tidemill.serving.client.remote_warehouse import RemoteWarehouse

__all__ = ["connect"]


@public_function
def connect(url: str, *, token: str | None = None, timeout: float = 60.0) -> RemoteWarehouse:
    """A warehouse that ``tidemill serve`` serves at ``url``, such as ``"http://127.0.0.1:6874"``.

    ``token`` is that of a user. ``timeout`` are the seconds that an answer may take; what changes something and gets no
    answer is sent again with the same key, so that it is made once.
    """
    return RemoteWarehouse(Connection(url, token, timeout))
