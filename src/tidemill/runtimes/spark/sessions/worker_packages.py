"""Tidemill in the Python workers of a cluster: sent to them once for a session, with what they lack told beforehand.

Tasks and lookups run Tidemill's own code where the data is. An archive of this installation goes to all workers, so
none needs Tidemill installed, and none runs another version of it. Packages with compiled parts cannot be sent: workers
are asked for their versions of those, by a function that needs nothing but Python.
"""

from __future__ import annotations

import importlib.util
import json
import marshal
import os
import re
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import MappingProxyType
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext, SparkFiles
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from tidemill.model.errors import SetupError
from tidemill.runtimes.spark.sessions.job_counters import described
from tidemill.runtimes.spark.sessions.session import cores_of, is_local, is_remote

__all__ = ["equip_workers", "require_packages"]

NEEDED = {"duckdb": (2,), "numpy": (1, 26), "pandas": (2, 2), "pyarrow": (18,)}
"""Packages that workers must have, and the oldest versions: those of ``pyproject.toml``."""

OPTIONAL = {"obstore": (0, 8)}
"""Packages that workers must have for some warehouses alone."""

SPARED = ("duckdb",)
"""Those of them that they may be without, where generated Python does the work."""

_workers: WeakKeyDictionary[object, list[WorkerPackages]] = WeakKeyDictionary()
"""Answers of the workers of each cluster, or of each session of Spark Connect."""

_UNCHECKED = (1).to_bytes(4, "little")
"""The flags of a compiled module that is not compared with its source."""


@dataclass(frozen=True, slots=True)
class WorkerPackages:
    """The Python of a worker and its versions of packages; None for what it does not have."""

    host: str
    python: str
    versions: Mapping[str, str | None]

    def lacking(self, needed: Mapping[str, tuple[int, ...]] = MappingProxyType(NEEDED)) -> dict[str, str]:
        """The packages that are not there, or too old, and what is there instead.

        >>> found = {"duckdb": None, "numpy": "1.24.4", "pandas": "2.2.0", "pyarrow": None}
        >>> WorkerPackages("one", "python3", found).lacking()
        {'numpy': 'numpy 1.24.4', 'pyarrow': 'no pyarrow'}
        """
        found = {name: self.versions.get(name) for name in needed}
        return {
            name: f"no {name}" if version is None else f"{name} {version}"
            for name, version in found.items()
            if (name not in SPARED if version is None else _numbers(version) < needed[name])
        }


def equip_workers(session: SparkSession) -> None:
    """Send Tidemill to the workers of a session; raises ``SetupError`` if they lack what it needs.

    A local session has none: its workers are processes of this machine, with this Python.
    """
    if is_remote(session):
        session.addArtifact(str(archive()), pyfile=True)
    elif is_local(session.sparkContext):
        return
    else:
        _send(session.sparkContext, archive())
    workers = workers_of(session)
    refuse_lacking(workers)
    _workers[_owner(session)] = workers
    warn_of_spared(workers)


def require_packages(session: SparkSession, names: Iterable[str]) -> None:
    """Send Tidemill to the workers of a session unless they have it, and refuse them without ``OPTIONAL`` packages."""
    if _owner(session) not in _workers:
        equip_workers(session)
    refuse_lacking(_workers.get(_owner(session), []), {name: OPTIONAL[name] for name in names})


def _owner(session: SparkSession) -> object:
    """The sessions of a cluster share its workers; a session of Spark Connect has files of its own there."""
    return session if is_remote(session) else session.sparkContext


def _send(context: SparkContext, file: Path) -> None:
    context.addPyFile(str(file))
    # Only for workers: what this process imports stays as it is.
    sys.path.remove(os.path.join(SparkFiles.getRootDirectory(), file.name))


@cache
def archive() -> Path:
    """All modules of this installation, compiled, in a file that lasts as long as this process."""
    package = Path(__file__).parents[3]
    content = {str(path): _compiled(name, source) for name, source, path in _modules(package)}
    digest = blake2b(b"".join(content.values()), digest_size=8).hexdigest()
    file = Path(_folder().name, f"tidemill-{digest}.zip")
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as out:
        for name, module in content.items():
            out.writestr(name, module)
    return file


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tidemill-workers-")


def _modules(package: Path) -> Iterator[tuple[str, Path, Path]]:
    """The modules of a package: name, source, and the path of the compiled one in an archive."""
    for source in sorted(package.rglob("*.py")):
        path = source.relative_to(package.parent).with_suffix("")
        name = ".".join(path.parent.parts if path.name == "__init__" else path.parts)
        yield name, source, path.with_suffix(".pyc")


def _compiled(name: str, source: Path) -> bytes:
    """A module as Python caches it: workers would compile two hundred, each time that one starts."""
    code = SourceFileLoader(name, str(source)).get_code(name)
    return importlib.util.MAGIC_NUMBER + _UNCHECKED + bytes(8) + marshal.dumps(code)


def workers_of(session: SparkSession) -> list[WorkerPackages]:
    """The packages of the workers of a session, by as many tasks as run at the same time."""
    tasks = cores_of(session)
    told = udf(_teller((*NEEDED, *OPTIONAL)), "STRING", useArrow=False)
    try:
        with described(session, "tidemill: packages of the workers"):
            answers = session.range(0, tasks, 1, tasks).select(told("id")).distinct().collect()
    except (PySparkException, Py4JJavaError) as error:
        raise _no_worker(str(error)) from error
    return [WorkerPackages(*json.loads(answer)) for (answer,) in answers]


def _teller(packages: tuple[str, ...]) -> Callable[[int], str]:
    """The function of a worker that tells its host, its Python and its versions of packages.

    A function within another is pickled by value, so a worker imports nothing of ours for it.
    """

    def tell(number: int) -> str:
        import json
        import socket
        import sys
        from importlib.metadata import PackageNotFoundError, version

        versions: dict[str, str | None] = dict.fromkeys(packages)
        for name in packages:
            try:
                versions[name] = version(name)
            except PackageNotFoundError:
                continue
        return json.dumps([socket.gethostname(), sys.executable, versions])

    return tell


def refuse_lacking(
    workers: Sequence[WorkerPackages], needed: Mapping[str, tuple[int, ...]] = MappingProxyType(NEEDED)
) -> None:
    """Refuse workers without the packages that Tidemill's code imports there, or with older ones."""
    lacking = {worker.python: (worker, found) for worker in workers if (found := worker.lacking(needed))}
    if not lacking:
        return
    names = {name for _, found in lacking.values() for name in found}
    wanted = [f"{name}>={'.'.join(map(str, oldest))}" for name, oldest in needed.items() if name in names]
    raise SetupError(
        f"Spark's workers need {' and '.join(wanted)}",
        where=", ".join(f"{worker.python} on {worker.host}" for worker, _ in lacking.values()),
        detail=" ".join(f"{python} has {' and '.join(found.values())}." for python, (_, found) in lacking.items()),
        hint=f"Run there: python -m pip install {' '.join(map(repr, wanted))}. Or set PYSPARK_PYTHON to a Python that "
        "has them on all machines. Tidemill itself is sent to them.",
    )


def warn_of_spared(workers: Sequence[WorkerPackages]) -> None:
    """Warn of workers that are slower than they could be."""
    without = [worker for worker in workers if any(worker.versions.get(name) is None for name in SPARED)]
    if without:
        names = ", ".join(f"{worker.python} on {worker.host}" for worker in without)
        warnings.warn(
            f"Spark's workers have no DuckDB ({names}): bulk changes are generated Python there, which takes four "
            "times as long. Run there: python -m pip install 'duckdb>=2'.",
            RuntimeWarning,
            stacklevel=2,
        )


def _no_worker(text: str) -> SetupError:
    """The error for workers that do not start."""
    absent = _NO_PROGRAM.search(text)
    other = _OTHER_PYTHON.search(text)
    if absent is not None:
        what = f"Spark's workers do not find {absent['program']}"
    elif other is not None:
        what = f"Spark's workers run Python {other['worker']}, and this process {other['driver']}"
    else:
        return SetupError("Spark's workers do not run Python", detail=text.splitlines()[0])
    return SetupError(
        what,
        detail="Tasks run Tidemill's code in Python, on the machines of the cluster.",
        hint=f"Set PYSPARK_PYTHON to a Python {sys.version_info[0]}.{sys.version_info[1]} that is on all of them.",
    )


_NO_PROGRAM = re.compile(r'Cannot run program "(?P<program>[^"]+)"')

_OTHER_PYTHON = re.compile(
    r"Python in worker has different version: (?P<worker>\S+) than that in driver: (?P<driver>[\d.]+\d)"
)


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with.

    >>> _numbers("18.1.0rc1"), _numbers("2.0")
    ((18, 1, 0), (2, 0))
    """
    return tuple(int(number) for number in re.findall(r"(?:^|\.)(\d+)", version))
