"""Commands for projects of Spark's declarative pipelines: ``run``, ``dry-run`` and ``show``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.serving.cli.warehouse_options import CsvOption, JsonOption, QuietOption, output_form, say
from tidemill.serving.render import OutputForm, json_line, print_rows

if TYPE_CHECKING:
    from tidemill.serving.pipelines.report import PipelineReport

__all__ = ["pipelines"]

pipelines = typer.Typer(
    help="Refresh a project of Spark's declarative pipelines incrementally.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

SpecOption = Annotated[
    str | None,
    typer.Option("--spec", metavar="FILE", help="The spark-pipeline.yml; by default that of this folder or above it."),
]


def _names(given: list[str]) -> list[str]:
    """Names of datasets, each option with one or several of them behind commas."""
    return [name.strip() for one in given for name in one.split(",") if name.strip()]


@pipelines.command()
def run(
    spec: SpecOption = None,
    full_refresh: Annotated[
        list[str] | None, typer.Option("--full-refresh", help="Datasets to make anew from their sources.")
    ] = None,
    full_refresh_all: Annotated[bool, typer.Option("--full-refresh-all", help="Make all datasets anew.")] = False,
    refresh: Annotated[list[str] | None, typer.Option("--refresh", help="Refresh only these datasets.")] = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    quiet: QuietOption = False,
) -> None:
    """Refresh the datasets of a pipeline, and report what became of each.

    \b
    Examples:
      tidemill pipelines run
      tidemill pipelines run --spec shop/spark-pipeline.yml --full-refresh orders,customers
    """
    from tidemill.serving.pipelines.run import run_pipeline

    form = output_form(as_json, as_csv)
    report = run_pipeline(
        spec,
        refresh=_names(refresh or []),
        full_refresh=_names(full_refresh or []),
        full_refresh_all=full_refresh_all,
        progress=(lambda _: None) if quiet else _tell,
    )
    _print(report, form, quiet=quiet)


@pipelines.command("dry-run")
def dry_run(
    spec: SpecOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    quiet: QuietOption = False,
) -> None:
    """Validate a pipeline without writing anything: names, types, cycles, and what can be refreshed.

    \b
    Examples:
      tidemill pipelines dry-run
    """
    from tidemill.serving.pipelines.run import plan_pipeline

    _print(plan_pipeline(spec), output_form(as_json, as_csv), planned=True, quiet=quiet)


@pipelines.command()
def show(spec: SpecOption = None, as_json: JsonOption = False, as_csv: CsvOption = False) -> None:
    """Print the datasets of a pipeline in their order, what each reads, and how it is refreshed.

    \b
    Examples:
      tidemill pipelines show
    """
    from tidemill.serving.pipelines.run import plan_pipeline

    report, form = plan_pipeline(spec), output_form(as_json, as_csv)
    if form is not OutputForm.table:
        _print(report, form)
        return
    for dataset in report.datasets:
        print(f"{dataset.dataset} ({dataset.kind}, {dataset.how})" + (f" <- {dataset.reads}" if dataset.reads else ""))
        if dataset.reason:
            print(f"    {dataset.reason}")


def _tell(what: str) -> None:
    print(f"{what} ...", file=sys.stderr, flush=True)


def _print(report: PipelineReport, form: OutputForm, *, planned: bool = False, quiet: bool = False) -> None:
    if form is OutputForm.json:
        for dataset in report.datasets:
            print(json_line(dataset.as_dict()))
        return
    if planned:
        rows = [(d.dataset, d.kind, d.how, d.reason or None) for d in report.datasets]
        print_rows(("dataset", "kind", "how", "reason"), rows, form)
        told = f"pipeline {report.name} is valid: {len(report.datasets)} datasets, nothing was written"
    else:
        columns = report.datasets[0].COLUMNS if report.datasets else ()
        print_rows(columns, [d.values() for d in report.datasets], form)
        taken = f"{report.taken:,} rows taken, {report.seconds:.2f} seconds"
        told = f"pipeline {report.name} at epoch {report.epoch}: {taken}"
    say(told, quiet=quiet, form=form)
