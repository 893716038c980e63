"""Scripts of statements: every statement is reported, and the rows of each that has any are printed."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from tidemill.model.errors import TidemillError
from tidemill.serving.cli.terminal.interrupts import INTERRUPTS
from tidemill.serving.cli.terminal.progress import counted_progress
from tidemill.serving.cli.warehouse_options import say
from tidemill.serving.render import OutputForm, print_result, row_count

if TYPE_CHECKING:
    from tidemill.engine.results import Result
    from tidemill.engine.warehouse import Warehouse

__all__ = ["run_script"]


def run_script(
    wh: Warehouse,
    text: str,
    name: str,
    form: OutputForm = OutputForm.table,
    *,
    quiet: bool = False,
    timing: bool | None = None,
) -> None:
    """Run statements, printing the rows of each and what it did; several are numbered, with the seconds that each took.

    In JSON and CSV only rows go to standard output. ``timing`` says whether seconds are printed.
    """
    report = ScriptReport(statement_count(text, name), form, quiet=quiet, timing=timing)
    with counted_progress("running", report.progress, quiet) as line:

        def note(result: Result) -> None:
            line.hide()
            report.note(result)

        try:
            wh.sql(text, name=name, each=note)
        except (KeyboardInterrupt, TidemillError) as error:
            if INTERRUPTS.ended_by(error):
                INTERRUPTS.note = report.progress() and f"{report.progress()} was interrupted"
            else:
                report.failed()
            raise


def statement_count(text: str, name: str) -> int:
    """The number of statements in a text."""
    from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
    from tidemill.compiler.frontends.sql.grammar.statement_cursor import split_statements

    return sum(1 for _ in split_statements(SqlText.of(text, name).tokens))


class ScriptReport:
    """Reports each statement of a script when it has been run."""

    def __init__(self, total: int, form: OutputForm, *, quiet: bool, timing: bool | None) -> None:
        self._total, self._done = total, 0
        self._form, self._quiet = form, quiet
        self._timing = total > 1 if timing is None else timing
        self._began = time.monotonic()

    def note(self, result: Result) -> None:
        """Print the rows of the statement that has just been run, and what it did."""
        seconds = time.monotonic() - self._began
        self._done += 1
        if result.columns:
            print_result(result, self._form)
        told = result.message or (row_count(result) if result.columns != ("explanation",) else "explained")
        number = f"[{self._done}/{self._total}] " if self._total > 1 else ""
        took = f" ({seconds:.3f} s)" if self._timing else ""
        counts = result.message or self._total > 1 or self._timing or self._form is OutputForm.table
        if counts and not (told == "explained" and self._total == 1):
            say(f"{number}{told}{took}", quiet=self._quiet, form=self._form)
        self._began = time.monotonic()

    def progress(self) -> str:
        """The statement that is running, of several."""
        return f"statement {min(self._done + 1, self._total)} of {self._total}" if self._total > 1 else ""

    def failed(self) -> None:
        """Tell how far a script came before the error that follows."""
        if 0 < self._done < self._total and not self._quiet:
            left = self._total - self._done - 1
            told = f"statement {self._done + 1} of {self._total} failed; {_were(self._done, 'before')} run"
            print(f"{told}, {_were(left, 'after')} not" if left else told, file=sys.stderr, flush=True)


def _were(count: int, where: str) -> str:
    return f"{count} {where} it {'was' if count == 1 else 'were'}"
