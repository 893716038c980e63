"""AES, as FIPS 197 defines it, in the modes ECB, CBC and GCM.

Written out in Python, as a few values of a view are decrypted at a time, and a library of compiled code would be one
more dependency. How long it takes depends on the key, so it is no shield against those who can measure that.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from tidemill.model.errors import ArithmeticFault

BLOCK = 16
KEY_SIZES = (16, 24, 32)
GCM_VECTOR, GCM_TAG = 12, 16
_REDUCTION = 0xE1 << 120
"""The polynomial of GCM's field, bits in its order."""


def _times_two(value: int) -> int:
    return (value << 1 ^ 0x11B if value & 0x80 else value << 1) & 0xFF


def _product(one: int, other: int) -> int:
    """The product in the field of 256 elements."""
    found = 0
    while other:
        found ^= one if other & 1 else 0
        one, other = _times_two(one), other >> 1
    return found


def _substitutions() -> bytes:
    """The S-box: the inverse of each byte in the field, and its bits mixed."""
    box = [0x63] * 256
    power = inverse = 1
    while True:
        power ^= _times_two(power)  # times three, which generates the field
        inverse ^= inverse << 1 & 0xFF
        inverse ^= inverse << 2 & 0xFF
        inverse ^= inverse << 4 & 0xFF
        inverse ^= 0x09 if inverse & 0x80 else 0
        spread = inverse ^ _rotated(inverse, 1) ^ _rotated(inverse, 2) ^ _rotated(inverse, 3) ^ _rotated(inverse, 4)
        box[power] = spread ^ 0x63
        if power == 1:
            return bytes(box)


def _rotated(value: int, distance: int) -> int:
    return (value << distance | value >> 8 - distance) & 0xFF


_BOX = _substitutions()
_BACK = bytes(_BOX.index(value) for value in range(256))
_SHIFTED = tuple((place + 4 * (place % 4)) % BLOCK for place in range(BLOCK))
_SHIFTED_BACK = tuple(_SHIFTED.index(place) for place in range(BLOCK))
_PRODUCTS = {factor: bytes(_product(value, factor) for value in range(256)) for factor in (2, 3, 9, 11, 13, 14)}


@lru_cache(maxsize=64)
def _round_keys(key: bytes) -> tuple[bytes, ...]:
    words = [key[start : start + 4] for start in range(0, len(key), 4)]
    size, constant = len(words), 1
    while len(words) < 4 * (size + 7):
        word = words[-1]
        if len(words) % size == 0:
            word = bytes(_BOX[value] for value in word[1:] + word[:1])
            word = bytes((word[0] ^ constant, *word[1:]))
            constant = _times_two(constant)
        elif size > 6 and len(words) % size == 4:
            word = bytes(_BOX[value] for value in word)
        words.append(_xor(word, words[-size]))
    return tuple(b"".join(words[start : start + 4]) for start in range(0, len(words), 4))


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=False))


def encrypt_block(block: bytes, key: bytes) -> bytes:
    """One block of 16 bytes, encrypted.

    >>> encrypt_block(bytes.fromhex("00112233445566778899aabbccddeeff"), bytes(range(16))).hex()
    '69c4e0d86a7b0430d8cdb78070b4c55a'
    """
    first, *middle, last = _round_keys(key)
    state = _xor(block, first)
    for round_key in middle:
        state = bytes(_BOX[state[place]] for place in _SHIFTED)
        state = _xor(_mixed(state, (2, 3, 1, 1)), round_key)
    return _xor(bytes(_BOX[state[place]] for place in _SHIFTED), last)


def decrypt_block(block: bytes, key: bytes) -> bytes:
    """The block that was encrypted.

    >>> decrypt_block(encrypt_block(b"sixteen bytes ok", b"0123456789abcdef"), b"0123456789abcdef")
    b'sixteen bytes ok'
    """
    last, *middle, first = reversed(_round_keys(key))
    state = bytes(_BACK[_xor(block, last)[place]] for place in _SHIFTED_BACK)
    for round_key in middle:
        mixed = _mixed(_xor(state, round_key), (14, 11, 13, 9))
        state = bytes(_BACK[mixed[place]] for place in _SHIFTED_BACK)
    return _xor(state, first)


def _mixed(state: bytes, factors: tuple[int, ...]) -> bytes:
    """The columns of a state times a matrix, each row of which is the one before it turned by one."""
    tables = [_PRODUCTS.get(factor, bytes(range(256))) for factor in factors]
    found = bytearray()
    for start in range(0, BLOCK, 4):
        column = state[start : start + 4]
        for row in range(4):
            a, b, c, d = (tables[(place - row) % 4][column[place]] for place in range(4))
            found.append(a ^ b ^ c ^ d)
    return bytes(found)


def _blocks(data: bytes) -> Iterator[bytes]:
    return (data[start : start + BLOCK] for start in range(0, len(data), BLOCK))


def encrypt_chained(data: bytes, key: bytes, vector: bytes | None) -> bytes:
    """Data, filled up to whole blocks: in CBC with a vector, which stands before the result, and without one in ECB."""
    fill = BLOCK - len(data) % BLOCK
    found, before = [vector or b""], vector
    for block in _blocks(data + bytes([fill]) * fill):
        found.append(encrypt_block(block if before is None else _xor(block, before), key))
        before = before and found[-1]
    return b"".join(found)


def decrypt_chained(data: bytes, key: bytes, chained: bool) -> bytes:
    """Inverse of ``encrypt_chained``; raises ArithmeticFault for data that it cannot have given."""
    before, body = (data[:BLOCK], data[BLOCK:]) if chained else (bytes(BLOCK), data)
    if not body or len(data) % BLOCK:
        raise unreadable()
    found = b""
    for block in _blocks(body):
        found += _xor(decrypt_block(block, key), before)
        before = block if chained else before
    fill = found[-1]
    if not 1 <= fill <= BLOCK or found[-fill:] != bytes([fill]) * fill:
        raise unreadable()
    return found[:-fill]


def encrypt_counted(data: bytes, key: bytes, vector: bytes, beside: bytes) -> bytes:
    """GCM: the vector, the encrypted data, and a tag over it and the bytes ``beside``."""
    body = _counted(data, key, vector)
    return vector + body + _tag(body, key, vector, beside)


def decrypt_counted(data: bytes, key: bytes, beside: bytes) -> bytes:
    """Inverse of ``encrypt_counted``; raises ArithmeticFault if the tag is another."""
    vector, body, tag = data[:GCM_VECTOR], data[GCM_VECTOR:-GCM_TAG], data[-GCM_TAG:]
    if len(data) < GCM_VECTOR + GCM_TAG or _tag(body, key, vector, beside) != tag:
        raise unreadable()
    return _counted(body, key, vector)


def _counted(data: bytes, key: bytes, vector: bytes) -> bytes:
    counted = (encrypt_block(vector + number.to_bytes(4, "big"), key) for number in range(2, len(data) // BLOCK + 3))
    return b"".join(_xor(block, stream) for block, stream in zip(_blocks(data), counted, strict=False))


def _tag(body: bytes, key: bytes, vector: bytes, beside: bytes) -> bytes:
    factor = int.from_bytes(encrypt_block(bytes(BLOCK), key), "big")
    lengths = (8 * len(beside)).to_bytes(8, "big") + (8 * len(body)).to_bytes(8, "big")
    found = 0
    for block in (*_blocks(beside), *_blocks(body), lengths):
        found = _field_product(found ^ int.from_bytes(block.ljust(BLOCK, b"\0"), "big"), factor)
    return _xor(found.to_bytes(BLOCK, "big"), encrypt_block(vector + b"\0\0\0\1", key))


def _field_product(one: int, other: int) -> int:
    found = 0
    for bit in range(127, -1, -1):
        found ^= other if one >> bit & 1 else 0
        other = other >> 1 ^ (_REDUCTION if other & 1 else 0)
    return found


def unreadable() -> ArithmeticFault:
    """The error for data that was not encrypted with the key, or was changed."""
    return ArithmeticFault("this cannot be decrypted with the key", hint="Use TRY_AES_DECRYPT to get NULL instead.")
