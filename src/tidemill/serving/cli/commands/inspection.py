"""Commands that show and check what a warehouse has: ``show``, ``explain``, ``verify`` and ``audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidemill.serving.cli.terminal.completion import complete_relation, complete_view
from tidemill.serving.cli.warehouse_options import (
    DEFAULT_FOLDER,
    CsvOption,
    FolderOption,
    JsonOption,
    OracleName,
    QuietOption,
    RuntimeName,
    RuntimeOption,
    find_relation,
    list_relations,
    open_folder,
    output_form,
    say,
)
from tidemill.serving.render import OutputForm, print_rows, row_count

__all__ = ["audit", "explain", "show", "verify"]


def show(
    name: Annotated[
        str | None, typer.Argument(help="A table or view; default: list all.", autocompletion=complete_relation)
    ] = None,
    at: Annotated[int | None, typer.Option(help="As it was at this epoch.")] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of rows; 0 is all.", min=0)] = 50,
    warehouse: FolderOption = DEFAULT_FOLDER,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show all tables and views, or the rows of one.

    \b
    Examples:
      tidemill show
      tidemill show spend --at 12
      tidemill show spend --limit 0 --json > spend.jsonl
      tidemill show spend --limit 0 --csv > spend.csv
    """
    form = output_form(as_json, as_csv)
    with open_folder(warehouse, RuntimeName.native, read_only=True) as wh:
        if name is None:
            print_rows(("name", "kind", "rows"), list(list_relations(wh)), form)
            return
        relation = find_relation(wh, name, at)
        rows = relation.rows()
        shown = rows[:limit] if limit else rows
        print_rows(relation.columns, shown, form)
        if len(shown) < len(rows):
            say(f"{len(shown)} of {row_count(rows)}; --limit 0 shows all", quiet=quiet, form=form)
        else:
            say(row_count(rows), quiet=quiet or form is not OutputForm.table)


def explain(
    view: Annotated[str, typer.Argument(help="The view.", autocompletion=complete_view)],
    warehouse: FolderOption = DEFAULT_FOLDER,
    runtime: RuntimeOption = RuntimeName.auto,
) -> None:
    """Explain how a view is maintained, and why.

    Strategy, runtime, program, predicted and measured cost.

    \b
    Examples:
      tidemill explain spend
    """
    with open_folder(warehouse, runtime, read_only=True) as wh:
        print(wh.view(view).explain())


def verify(
    views: Annotated[
        list[str] | None, typer.Argument(help="The views; default: all.", autocompletion=complete_view)
    ] = None,
    warehouse: FolderOption = DEFAULT_FOLDER,
    runtime: RuntimeOption = RuntimeName.auto,
    files: Annotated[bool, typer.Option("--files", help="First compare every file with its checksum.")] = False,
    against: Annotated[
        OracleName | None, typer.Option(help="Who recomputes: spark takes each view's own text. Left out: by size.")
    ] = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compare views with their recomputation.

    In both directions, duplicates counted; prints which engine recomputed them. The exit code is 1 if one differs;
    quiet prints those alone.

    \b
    Examples:
      tidemill verify
      tidemill verify spend top_customers
      tidemill verify --against spark
      tidemill verify --files
    """
    form = output_form(as_json, as_csv)
    with open_folder(warehouse, runtime, read_only=True) as wh:
        if files:
            seen = wh.check_files()
            say(f"{seen.files:,} files, {seen.bytes:,} bytes: all checksums match", quiet=quiet, form=form)
        checks = wh.verify(*(views or ()), against=against and against.value)
    if form is not OutputForm.table:
        print_rows(("view", "ok", "rows", "oracle"), [(one.view, one.ok, one.rows, one.oracle) for one in checks], form)
    for one in checks if form is OutputForm.table else ():
        say(one, quiet=quiet and one.ok)
    if not all(checks):
        raise typer.Exit(1)


def audit(
    view: Annotated[str | None, typer.Argument(help="A view over sources.")] = None,
    history: Annotated[
        Path | None, typer.Option(help="Check this recorded history instead; - is standard input.")
    ] = None,
    level: Annotated[str, typer.Option(help="What the history promises: convergent, weak, consistent, ...")] = "strong",
    stored: Annotated[bool, typer.Option("--stored", help="Only stored states: works beside a writer.")] = False,
    patience: Annotated[float, typer.Option(help="How many seconds sources may go on changing.")] = 30,
    warehouse: FolderOption = DEFAULT_FOLDER,
    as_json: JsonOption = False,
) -> None:
    """Check how consistent a view over sources is.

    For a view: the states of its sources that it showed, by epoch; then it is synced and compared with the answers of
    its sources. For a recorded history: which of the five levels convergent, weak, consistent, strong and complete it
    keeps, and what violates the others. The exit code is 1 if a promised level is violated.

    \b
    Examples:
      tidemill audit spend -w shop
      tidemill audit spend --stored --json
      tidemill audit --history history.jsonl --level complete
      lines of a history, in order: {"source": [[1, "ann"]]} and {"warehouse": [[1, "ann"]]}, all rows of one state
    """
    from tidemill.serving.cli.audit import check_history, check_view

    if (view is None) == (history is None):
        raise typer.BadParameter("name a view, or a file with --history")
    if history is not None:
        kept = check_history(history, level, as_json=as_json)
    else:
        with open_folder(warehouse, RuntimeName.native, read_only=stored) as wh:
            kept = check_view(wh.view(view or ""), None if stored else patience, as_json=as_json)
    if not kept:
        raise typer.Exit(1)
