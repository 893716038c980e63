"""Encryption with AES, of which the modes are `ECB`, `CBC` and `GCM`; the last is the default.

A vector that is not given is drawn by Spark for each row, so `aes_encrypt` takes one in the modes that have it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tidemill.algebra.functions.function import Function, always, takes
from tidemill.algebra.values import aes
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, Unsupported

PADDINGS = {"ECB": "PKCS", "CBC": "PKCS", "GCM": "NONE"}
"""The padding of each mode; `DEFAULT` is another name of it."""


def encrypt(
    data: bytes, key: bytes, mode: str = "GCM", padding: str = "DEFAULT", vector: bytes = b"", beside: bytes = b""
) -> bytes:
    """Data, encrypted by a key; the vector stands before the result.

    >>> encrypt(b"Spark SQL", b"1234567890abcdef", "ECB").hex()
    'de59b0bbe330d07ddf8b9343bdcbbd96'
    """
    chosen = _checked(key, mode, padding)
    if chosen == "ECB":
        if vector or beside:
            raise ArithmeticFault("ECB takes no vector, and no bytes beside the data")
        return aes.encrypt_chained(data, key, None)
    if not vector:
        raise no_vector()
    size = aes.GCM_VECTOR if chosen == "GCM" else aes.BLOCK
    if len(vector) != size:
        raise ArithmeticFault(f"a vector of {chosen} has {size} bytes, not {len(vector)}")
    if chosen == "GCM":
        return aes.encrypt_counted(data, key, vector, beside)
    if beside:
        raise ArithmeticFault("CBC takes no bytes beside the data")
    return aes.encrypt_chained(data, key, vector)


def decrypt(data: bytes, key: bytes, mode: str = "GCM", padding: str = "DEFAULT", beside: bytes = b"") -> bytes:
    """The data that was encrypted."""
    chosen = _checked(key, mode, padding)
    if chosen == "GCM":
        return aes.decrypt_counted(data, key, beside)
    if beside:
        raise ArithmeticFault(f"{chosen} takes no bytes beside the data")
    return aes.decrypt_chained(data, key, chosen == "CBC")


def _tried(*arguments: Any) -> bytes | None:
    try:
        return decrypt(*arguments)
    except ArithmeticFault:
        return None


def _checked(key: bytes, mode: str, padding: str) -> str:
    """The mode in capitals."""
    chosen = mode.upper()
    if padding.upper() not in (PADDINGS.get(chosen), "DEFAULT") or chosen not in PADDINGS:
        raise ArithmeticFault(f"AES has no mode {mode} with padding {padding}")
    if len(key) not in aes.KEY_SIZES:
        raise ArithmeticFault(f"a key of AES has 16, 24 or 32 bytes, not {len(key)}")
    return chosen


def no_vector() -> Unsupported:
    """The refusal of a call that draws a vector for each row."""
    return Unsupported(
        "encryption with a random vector",
        detail="Its value changes although no row does, and no change would carry it.",
        hint="Give a vector: AES_ENCRYPT(x, key, 'CBC', 'DEFAULT', vector), or use ECB.",
    )


def _check_vector(values: Sequence[Any]) -> None:
    """Refuse a call that would draw vectors: a mode is a constant then, or the default."""
    if len(values) < 3 or (len(values) < 5 and isinstance(values[2], str) and values[2].upper() in ("CBC", "GCM")):
        raise no_vector()


_DATA = (t.BINARY, t.BINARY, t.STRING, t.STRING)


def _decrypting(name: str, apply: Callable[..., Any], **more: Any) -> Function:
    return Function(name, takes(*_DATA, t.BINARY, gives=t.BINARY, optional=3), apply, f"{name}({{args}})", **more)


ENCRYPTION = (
    Function(
        "aes_encrypt",
        takes(*_DATA, t.BINARY, t.BINARY, gives=t.BINARY, optional=4),
        encrypt,
        "aes_encrypt({args})",
        check=_check_vector,
    ),
    _decrypting("aes_decrypt", decrypt),
    _decrypting("try_aes_decrypt", _tried, null_when=always, total=True),
)
