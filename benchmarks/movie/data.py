"""The OO7 database of MOVIE: the objects of Figure 1, as many as Figure 14 counts, the same each time.

Sizes and the ranges of dates are those of the small database of OO7. A composite part in ten is young: built after
every assembly and every atomic part, as views on build dates find out. All others were built before them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

ODL = Path(__file__).parent / "oo7.odl"
"""The classes."""

SIZES = {"db1": 4, "db2": 8, "db3": 12, "db4": 16, "db5": 20}
"""The modules of each database of Figure 14."""

SEED = 2272
"""With it complexView3 has as many rows as in the paper, 1840, of which composite part 100 gives 40."""

COMPOSITES, ATOMICS, FAN_OUT = 500, 20, 6
"""Composite parts of a module, atomic parts of each, and connections from each of those."""

LEVELS, BRANCHES, COMPONENTS = 7, 3, 3
"""The tree of assemblies; and how many composite parts a base assembly has to itself, and shares."""

YOUNG = 10
"""Each composite part whose id is a multiple of this is young."""

TYPES = 10
DOCUMENT, MANUAL = 2_000, 100_000
"""Characters of a text."""

Numbers = npt.NDArray[np.int64]
Columns = dict[str, pa.Array]

_COMPLEX: int = sum(BRANCHES**level for level in range(LEVELS - 1))
_BASE: int = BRANCHES ** (LEVELS - 1)

COUNTS: Mapping[str, int] = {
    "compositeparts": COMPOSITES,
    "documents": COMPOSITES,
    "atomicparts": COMPOSITES * ATOMICS,
    "connections": COMPOSITES * ATOMICS * FAN_OUT,
    "complexassemblies": _COMPLEX,
    "baseassemblies": _BASE,
    "modules": 1,
    "manuals": 1,
}
"""The objects of a module, by the extents that they are created in."""


def objects_of(modules: int) -> int:
    """How many objects a database has.

    >>> objects_of(12)
    865140
    """
    return modules * sum(COUNTS.values())


def database(modules: int) -> dict[str, pa.Table]:
    """The objects by extent, each with its ``oid``; of a relationship one end is given. Composite part N has oid N."""
    parts = [_Module(number, modules).tables() for number in range(modules)]
    return {name: pa.concat_tables([part[name] for part in parts]) for name in COUNTS}


class _Module:
    """A module of several; its own number decides what it is like, so that larger databases begin as smaller ones."""

    def __init__(self, number: int, modules: int) -> None:
        self._number = number
        self._random = np.random.default_rng((SEED, number))
        self._first: dict[str, int] = {}
        before = 0
        for name, count in COUNTS.items():
            self._first[name] = before + number * count + 1
            before += modules * count

    def tables(self) -> dict[str, pa.Table]:
        """Its objects."""
        made: Mapping[str, Columns] = {
            "compositeparts": self._composites(),
            "documents": self._documents(),
            "atomicparts": self._atomics(),
            "connections": self._connections(),
            "complexassemblies": self._complex_assemblies(),
            "baseassemblies": self._base_assemblies(),
            "modules": self._module(),
            "manuals": self._manual(),
        }
        return {name: pa.table({"oid": pa.array(self._oids(name)), **columns}) for name, columns in made.items()}

    def _oids(self, name: str) -> Numbers:
        return np.arange(self._first[name], self._first[name] + COUNTS[name])

    def _ids(self, name: str) -> Numbers:
        return np.arange(COUNTS[name]) + self._number * COUNTS[name] + 1

    def _design(self, ids: Numbers, dates: Numbers) -> Columns:
        """What all design objects have."""
        types = pa.array([f"type{number:03}" for number in range(TYPES)])
        chosen = pa.array(self._random.integers(0, TYPES, len(ids)))
        return {"id": pa.array(ids), "type": types.take(chosen), "builddate": pa.array(dates)}

    def _middle(self, count: int) -> Numbers:
        """Dates between those of old and of young composite parts."""
        return self._random.integers(1_000, 2_000, count)

    def _composites(self) -> Columns:
        ids = self._ids("compositeparts")
        dates = self._random.integers(0, 1_000, len(ids)) + np.where(ids % YOUNG == 0, 2_000, 0)
        atomics = self._oids("atomicparts")
        return {
            **self._design(ids, dates),
            "parts": _lists(atomics, ATOMICS),
            "rootpart": pa.array(atomics[::ATOMICS]),
            "documentation": pa.array(self._oids("documents")),
        }

    def _documents(self) -> Columns:
        ids = self._ids("documents").tolist()
        return {
            "title": pa.array([f"Composite Part {id:08}" for id in ids]),
            "id": pa.array(ids),
            "text": pa.array([_text(f"I am the documentation for composite part #{id:08}.\n", DOCUMENT) for id in ids]),
        }

    def _atomics(self) -> Columns:
        ids = self._ids("atomicparts")
        return {
            **self._design(ids, self._middle(len(ids))),
            "x": pa.array(self._random.integers(0, 100_000, len(ids))),
            "y": pa.array(self._random.integers(0, 100_000, len(ids))),
            "docid": pa.array(np.repeat(self._ids("documents"), ATOMICS)),
            "partof": pa.array(np.repeat(self._oids("compositeparts"), ATOMICS)),
        }

    def _connections(self) -> Columns:
        """From each atomic part one to the next of its composite part, so that all are connected, and others to any."""
        count = COUNTS["atomicparts"]
        sources = np.arange(count)
        first = sources - sources % ATOMICS
        targets = self._random.integers(0, ATOMICS, (count, FAN_OUT))
        targets[:, 0] = (sources + 1) % ATOMICS
        atomics = self._oids("atomicparts")
        types = pa.array([f"type{number:03}" for number in range(TYPES)])
        return {
            "type": types.take(pa.array(self._random.integers(0, TYPES, count * FAN_OUT))),
            "length": pa.array(self._random.integers(0, 1_000, count * FAN_OUT)),
            "from": pa.array(np.repeat(atomics, FAN_OUT)),
            "to": pa.array(atomics[(first[:, None] + targets).ravel()]),
        }

    def _complex_assemblies(self) -> Columns:
        places = np.arange(_COMPLEX)
        above = pa.array(self._first["complexassemblies"] + (places - 1) // BRANCHES, mask=places == 0)
        return {
            **self._design(self._assembly_ids("complexassemblies"), self._middle(_COMPLEX)),
            **self._assembly("Complex", above),
        }

    def _base_assemblies(self) -> Columns:
        above = self._first["complexassemblies"] + (_COMPLEX + np.arange(_BASE) - 1) // BRANCHES
        return {
            **self._design(self._assembly_ids("baseassemblies"), self._middle(_BASE)),
            **self._assembly("Base", pa.array(above)),
            "componentspriv": self._components(),
            "componentsshar": self._components(),
        }

    def _assembly_ids(self, name: str) -> Numbers:
        """Those of complex assemblies come first in each module."""
        shift = _COMPLEX if name == "baseassemblies" else 0
        return np.arange(COUNTS[name]) + self._number * (_COMPLEX + _BASE) + shift + 1

    def _assembly(self, kind: str, above: pa.Array) -> Columns:
        return {
            "asmtype": pa.array([kind] * len(above)),
            "superassembly": above,
            "omodule": pa.array(np.repeat(self._oids("modules"), len(above))),
        }

    def _components(self) -> pa.Array:
        """For each base assembly some composite parts of the module, all different."""
        places = self._random.random((_BASE, COMPOSITES)).argpartition(COMPONENTS)[:, :COMPONENTS]
        return _lists(self._oids("compositeparts")[np.sort(places)].ravel(), COMPONENTS)

    def _module(self) -> Columns:
        return {
            **self._design(self._ids("modules"), self._middle(1)),
            "designroot": pa.array(self._oids("complexassemblies")[:1]),
            "man": pa.array(self._oids("manuals")),
        }

    def _manual(self) -> Columns:
        (id,) = self._ids("manuals").tolist()
        return {
            "title": pa.array([f"Module {id:08}"]),
            "id": pa.array([id]),
            "text": pa.array([_text(f"I am the manual for module #{id:08}.\n", MANUAL)]),
        }


def _lists(values: Numbers, each: int) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(np.arange(0, len(values) + 1, each), pa.int32()), pa.array(values))


def _text(line: str, length: int) -> str:
    return (line * (length // len(line) + 1))[:length]
