"""The prompt, and how values are printed."""

from __future__ import annotations

import datetime as dt
import io
import math
from collections.abc import Callable
from decimal import Decimal

import pytest
from rich.console import Console

from tidemill.model.errors import UnknownName
from tidemill.serving.cli.shell.session import run_session
from tidemill.serving.cli.shell.statement_end import is_complete
from tidemill.serving.demo.board import DemoStatistics, board_for
from tidemill.serving.render import as_text, json_line, print_table


def typed(*lines: str | type[BaseException]) -> Callable[[str], str]:
    """Somebody who types these lines, or presses Ctrl-C, and then ends the input."""
    waiting = list(lines)

    def read(_: str) -> str:
        line = waiting.pop(0) if waiting else EOFError
        if isinstance(line, str):
            return line
        raise line

    return read


def test_a_statement_ends_with_its_semicolon() -> None:
    run: list[str] = []
    run_session(run.append, typed("SELECT 1", "FROM t;", "", "SELECT 'a;", "b';", ";"))
    assert run == ["SELECT 1\nFROM t;", "SELECT 'a;\nb';"]


def test_ctrl_c_gives_up_the_statement_and_quit_the_session() -> None:
    run: list[str] = []
    run_session(run.append, typed("SELECT wrong", KeyboardInterrupt, "SELECT 1;", "QUIT;", "SELECT 2;"))
    assert run == ["SELECT 1;"]


def test_an_error_does_not_end_the_session(capsys: pytest.CaptureFixture[str]) -> None:
    def run(statement: str) -> None:
        if "wrong" in statement:
            raise UnknownName('there is no table "wrong"')
        print("fine")

    run_session(run, typed("SELECT * FROM wrong;", "SELECT 1;"))
    out, err = capsys.readouterr()
    assert out == "fine\n"
    assert err == 'error: there is no table "wrong"\n'


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("SELECT 1;", True),
        ("SELECT 1; -- done", True),
        ("SELECT 1 -- ;", False),
        ('SELECT ";', False),
        ("a `;`", False),
    ],
)
def test_where_a_statement_ends(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def test_values_are_shown_as_sql_spells_them() -> None:
    assert as_text(True) == "true"
    assert as_text(dt.datetime(2024, 5, 1, 12)) == "2024-05-01 12:00:00"
    assert as_text({"a": [1, None]}) == '{"a": [1, null]}'


def test_json_loses_nothing() -> None:
    row = {"d": Decimal("1.10"), "x": [math.inf, -math.inf, 0.5], "t": dt.datetime(2024, 5, 1), "s": "žluť", "n": None}
    assert json_line(row) == (
        '{"d": "1.10", "x": ["Infinity", "-Infinity", 0.5], "t": "2024-05-01T00:00:00", "s": "žluť", "n": null}'
    )


def test_a_long_row_is_not_cut_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("a", "b"), [("x" * 500, "[bold]")])
    out = capsys.readouterr().out
    assert "x" * 500 in out
    assert "[bold]" in out


def test_the_board_on_a_terminal_shows_every_view() -> None:
    screen = io.StringIO()
    figures = DemoStatistics(("spend", "reach"), "native", seconds=60, refreshes=[0.01], recomputes={"native": [1.0]})
    figures.note("spend", changed=3, grown=1)
    with board_for(Console(file=screen, force_terminal=True, width=100)) as board:
        board.update(figures)
    assert "spend" in screen.getvalue()
    assert "100.0 times faster" in screen.getvalue()


def test_figures_say_when_refreshing_is_slower() -> None:
    figures = DemoStatistics((), "spark", seconds=60, refreshes=[2.0], recomputes={"spark": [1.0]})
    assert figures.comparison == "refresh 2,000 ms, recompute 1,000 ms on spark: 2.0 times slower"
