"""The reference is complete and current."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main

import tidemill
from docs.reference.constructs import written
from docs.reference.functions import THEMES, page
from tidemill.algebra.functions.datetime.time_windows import TIME_WINDOWS
from tidemill.algebra.functions.function import USER_FUNCTION_MARK
from tidemill.algebra.functions.numbers.integer_bounds import INTEGER_BOUNDS
from tidemill.algebra.functions.numbers.ring_arithmetic import RING
from tidemill.algebra.functions.numbers.variance import VARIANCE_FUNCTIONS
from tidemill.algebra.functions.registry import FUNCTIONS
from tidemill.algebra.functions.text.hash_registers import HASH_REGISTERS
from tidemill.compiler import choose
from tidemill.engine.catalog.views.view_options import view_options
from tidemill.engine.row_changes import RowChanges
from tidemill.model import errors
from tidemill.serving.cli.app import app

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"


def test_functions_are_current() -> None:
    assert (REFERENCE / "functions.md").read_text() == page() + "\n", "run make reference"


def test_constructs_are_current() -> None:
    page = (REFERENCE / "sql.md").read_text()
    assert page == written(page), "run make reference"


def test_every_function_has_its_theme() -> None:
    within_programs = {
        function.name for function in (*RING, *INTEGER_BOUNDS, *VARIANCE_FUNCTIONS, *TIME_WINDOWS, *HASH_REGISTERS)
    }  # no SQL text calls these
    named = {function.name for _, _, functions in THEMES for function in functions}
    own = {name for name in FUNCTIONS if USER_FUNCTION_MARK not in name}  # others have registered some of their own
    assert named == own - within_programs


def test_every_error_is_listed() -> None:
    listed = set(re.findall(r"^\| `(\w+)`", (REFERENCE / "errors.md").read_text(), flags=re.MULTILINE))
    kinds = {name for name in errors.__all__ if name != "TextLocation"}
    groups = {
        kind.__name__
        for kind in errors.TidemillError.__subclasses__()
        if any(below.__name__ in kinds for below in kind.__subclasses__())
    }
    assert listed == kinds - groups - {"TidemillError"}


@pytest.mark.parametrize("name", sorted(typer.main.get_command(app).commands))  # type: ignore[attr-defined]
def test_every_command_is_described(name: str) -> None:
    text = (REFERENCE / "cli.md").read_text()
    assert f"## `{name}`" in text
    section = text.split(f"## `{name}`")[1].split("\n## ")[0]
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    for parameter in command.params:
        for option in parameter.opts:
            if option.startswith("--") and option not in ("--help", "--warehouse", "--runtime"):
                assert option in section, f"{name} {option}"


@pytest.mark.parametrize("option", sorted(view_options()))
def test_every_view_option_is_described(option: str) -> None:
    assert f"`{option}`" in (REFERENCE / "sql.md").read_text()


def test_the_rule_of_auto_has_its_numbers() -> None:
    text = (REFERENCE / "runtimes.md").read_text()
    assert f"more than {choose.NATIVE_ROWS:,} stored rows" in text
    assert f"up to {choose.NATIVE_WORK:,} rows" in text


def test_every_method_of_a_warehouse_is_described() -> None:
    text = (REFERENCE / "python.md").read_text()
    for name in {**vars(tidemill.Warehouse), **vars(RowChanges)}:
        assert name.startswith("_") or name.isupper() or re.search(rf"`{name}\b", text), name
