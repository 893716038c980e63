"""What an import loads: the engine, Spark, LLVM, pandas and the like come when they are needed, not before."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import tidemill

REPORT = "import json, sys; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"

PLAIN = {"tidemill"}
"""The modules that ``import tidemill`` loads beside the standard library: itself alone."""

HELP = {"annotated_doc", "click", "shellingham", "tidemill", "typer"}
"""The packages that ``tidemill --help`` may load: typer with what it needs, and nothing that opens or prints."""

ENGINE = {"numpy", "pyarrow", "sqlglot", "tidemill"}
"""The packages that ``tidemill.open`` loads for a warehouse in memory."""

HEAVY = {"duckdb", "llvmlite", "pandas", "psycopg", "pyspark", "rich"}


def _loaded(program: str) -> set[str]:
    """The modules of others, and ours, that are loaded once ``program`` has run in a new interpreter."""
    run = [sys.executable, "-c", f"{program}\n{REPORT}"]
    told = subprocess.run(run, capture_output=True, text=True, check=True).stderr
    before = subprocess.run([sys.executable, "-c", REPORT], capture_output=True, text=True, check=True).stderr
    return set(json.loads(told)) - set(json.loads(before))


def _packages(modules: set[str]) -> set[str]:
    """The top packages that are not of the standard library; Cython and mypyc leave helpers of no weight."""
    found = {name.partition(".")[0] for name in modules} - set(sys.stdlib_module_names)
    return {name for name in found if not name.startswith(("_", "cython", "mypy_extensions"))}


def test_a_plain_import_loads_nothing_else() -> None:
    loaded = _loaded("import tidemill")
    assert _packages(loaded) == {"tidemill"}
    assert {name for name in loaded if name.partition(".")[0] == "tidemill"} == PLAIN


def test_help_loads_the_command_line_alone() -> None:
    show = "from tidemill.serving.cli.app import app\ntry:\n    app(['--help'])\nexcept SystemExit:\n    pass"
    loaded = _loaded(show)
    assert _packages(loaded) <= HELP
    assert not {
        name for name in loaded if name.startswith(("tidemill.engine", "tidemill.compiler", "tidemill.runtimes"))
    }


def test_opening_a_warehouse_loads_what_it_needs() -> None:
    loaded = _packages(_loaded("import tidemill; tidemill.open(':memory:', runtime='native').close()"))
    assert loaded == ENGINE
    assert not loaded & HEAVY


@pytest.mark.parametrize("name", tidemill.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(tidemill, name) is not None
    assert name in dir(tidemill)


def test_an_unknown_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="module 'tidemill' has no attribute 'opne'"):
        tidemill.opne  # noqa: B018
