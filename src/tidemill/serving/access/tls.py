"""The certificate of a server."""

from __future__ import annotations

import ssl
from pathlib import Path

from tidemill.model.errors import SetupError

__all__ = ["tls_context"]


def tls_context(certificate: str | Path | None, key: str | Path | None) -> ssl.SSLContext | None:
    """The TLS of a server with this certificate, and those that lead to its root, in PEM; None without one.

    TLS 1.2 and 1.3. The files are read once: a server whose certificate is renewed is started again.
    """
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise SetupError("TLS needs a certificate and its key", hint="Give --tls-cert and --tls-key.")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ssl.SSLError) as error:
        why = error.strerror if not isinstance(error, ssl.SSLError) else (error.reason or "They are no PEM files.")
        raise SetupError(
            "the certificate cannot be used", where=f"{certificate}, {key}", detail=str(why), hint="Both are PEM files."
        ) from None
    return context


def _no_password() -> str:
    """Nobody is asked at a terminal for the password of a key."""
    raise SetupError("the key of the certificate has a password", hint="A server needs one without.")
