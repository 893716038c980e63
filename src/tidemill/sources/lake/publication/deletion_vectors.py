"""Deletion vectors of Delta: the places of deleted rows as bitmaps, in a file beside the data files.

The format is that of the Delta protocol: 64-bit places as an array of 32-bit Roaring bitmaps, each of containers for
65,536 places, which are sorted numbers of 16 bits or, if these would be longer, bits.
"""

from __future__ import annotations

import base64
import struct
import time
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import numpy as np

from tidemill.sources.lake.marked_rows import Positions

__all__ = ["delete_vectors", "read_vector", "vector_file"]

FOLDER = "_vectors"
"""Folder of the files with vectors, in that of the table.

Names with an underscore are left alone by ``DeltaTable.vacuum(full=True)``, which knows data files alone, and would
delete vectors that are in use.
"""

_MAGIC = 1681511377
_COOKIE = 12346
_ARRAY_LIMIT = 4096
"""Number of places above which a container is one of bits."""

_BITS = 1 << 16
"""Number of places of a container."""

_ARRAY_HEAD = struct.Struct("<IQ")
"""Beginning of an array of bitmaps: the magic number, and how many there are."""

_NAME_LENGTH = 20
"""Length of the name of a file in base 85."""

_PYTHON_85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_ZEROMQ_85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def vector_file(deleted: Mapping[str, Positions]) -> tuple[str, bytes, dict[str, dict[str, Any]]]:
    """The name and content of a file with a vector for each data file, and their descriptors for the log."""
    name, content, found = uuid4(), bytearray(b"\x01"), {}
    for path, positions in deleted.items():
        vector = _bitmap_array(positions)
        found[path] = {
            "storageType": "u",
            "pathOrInlineDv": FOLDER + _base85(name),
            "offset": len(content),
            "sizeInBytes": len(vector),
            "cardinality": len(positions),
        }
        content += struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
    return f"{FOLDER}/deletion_vector_{name}.bin", bytes(content), found


def read_vector(location: str, descriptor: Mapping[str, Any]) -> Positions | None:
    """The places of deleted rows in a vector that was written here; None if it is another one, or damaged."""
    named = str(descriptor["pathOrInlineDv"])
    if descriptor["storageType"] != "u" or not named.startswith(FOLDER) or len(named) != len(FOLDER) + _NAME_LENGTH:
        return None
    name, size = _uuid(named[len(FOLDER) :]), int(descriptor["sizeInBytes"])
    with Path(location, FOLDER, f"deletion_vector_{name}.bin").open("rb") as file:
        file.seek(int(descriptor["offset"]))
        content = file.read(size + 8)
    vector = content[4:-4]
    if content[:4] != struct.pack(">I", size) or content[-4:] != struct.pack(">I", zlib.crc32(vector)):
        return None
    places = _places(vector)
    return places if len(places) == descriptor["cardinality"] else None


def delete_vectors(location: str, adds: Iterable[Mapping[str, Any]], seconds: float) -> None:
    """Delete files with vectors that no ``add`` action of the newest version has, if they are older than this."""
    used = {add["deletionVector"]["pathOrInlineDv"] for add in adds if "deletionVector" in add}
    for file in Path(location, FOLDER).glob("deletion_vector_*.bin"):
        name = FOLDER + _base85(UUID(file.stem.removeprefix("deletion_vector_")))
        if name not in used and file.stat().st_mtime < time.time() - seconds:
            file.unlink()


def _base85(name: UUID) -> str:
    return base64.b85encode(name.bytes).translate(bytes.maketrans(_PYTHON_85, _ZEROMQ_85)).decode()


def _uuid(text: str) -> UUID:
    return UUID(bytes=base64.b85decode(text.encode().translate(bytes.maketrans(_ZEROMQ_85, _PYTHON_85))))


def _bitmap_array(positions: Positions) -> bytes:
    """64-bit places: a bitmap for each value of the upper half."""
    upper = positions >> 32
    parts = [_ARRAY_HEAD.pack(_MAGIC, len(np.unique(upper)))]
    for high in np.unique(upper):
        parts += [struct.pack("<I", high), _bitmap(positions[upper == high] & 0xFFFFFFFF)]
    return b"".join(parts)


def _bitmap(positions: Positions) -> bytes:
    """32-bit places: the number of containers, their upper halves and sizes, where each starts, and their contents."""
    keys, starts = np.unique(positions >> 16, return_index=True)
    containers = np.split((positions & 0xFFFF).astype("<u2"), starts[1:])
    contents = [_container(one) for one in containers]
    heads = b"".join(struct.pack("<HH", key, len(one) - 1) for key, one in zip(keys, containers, strict=True))
    start = 8 + len(heads) + 4 * len(keys)
    offsets = start + np.cumsum([0, *map(len, contents)])[:-1]
    return struct.pack("<II", _COOKIE, len(keys)) + heads + offsets.astype("<u4").tobytes() + b"".join(contents)


def _places(vector: bytes) -> Positions:
    """The places of an array of bitmaps, as ``_bitmap_array`` writes it."""
    found, at = [np.zeros(0, np.int64)], _ARRAY_HEAD.size
    _, count = _ARRAY_HEAD.unpack_from(vector)
    for _ in range(count):
        high, _, containers = struct.unpack_from("<III", vector, at)
        heads = np.frombuffer(vector, "<u2", 2 * containers, at + 12).reshape(-1, 2).astype(np.int64)
        at += 12 + 8 * containers
        for key, less in heads.tolist():
            size = 2 * (less + 1) if less < _ARRAY_LIMIT else _BITS // 8
            found.append((high << 32 | key << 16) + _contained(vector[at : at + size], less + 1))
            at += size
    return np.concatenate(found)


def _contained(content: bytes, count: int) -> Positions:
    if count <= _ARRAY_LIMIT:
        return np.frombuffer(content, "<u2").astype(np.int64)
    return np.flatnonzero(np.unpackbits(np.frombuffer(content, np.uint8), bitorder="little"))


def _container(places: np.ndarray[Any, Any]) -> bytes:
    if len(places) <= _ARRAY_LIMIT:
        return places.tobytes()
    bits = np.zeros(_BITS, np.uint8)
    bits[places] = 1
    return np.packbits(bits, bitorder="little").tobytes()
