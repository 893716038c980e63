"""The command line: the list of its commands, and how they end."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from tidemill import __version__
from tidemill.model.errors import InternalError, SetupError, TidemillError
from tidemill.serving.cli.commands.bench import bench
from tidemill.serving.cli.commands.builds import builds
from tidemill.serving.cli.commands.copies import backup, clone, restore
from tidemill.serving.cli.commands.following import clock, feed, schedule, sync, watch
from tidemill.serving.cli.commands.input import apply, load, objects, shell, sql
from tidemill.serving.cli.commands.inspection import audit, explain, show, verify
from tidemill.serving.cli.commands.maintenance import check, compact, repair, vacuum
from tidemill.serving.cli.commands.pipelines import pipelines
from tidemill.serving.cli.commands.projects import deploy, diff, drop_stage, plan, promote
from tidemill.serving.cli.commands.serve import serve
from tidemill.serving.cli.commands.ui import ui
from tidemill.serving.cli.commands.users import user
from tidemill.serving.cli.observing.cost_commands import costs, doctor, refreshes, top
from tidemill.serving.cli.observing.log_output import LogLevel, print_log
from tidemill.serving.cli.terminal.completion import completion, prepare_completion
from tidemill.serving.cli.terminal.interrupts import INTERRUPTED, INTERRUPTS
from tidemill.serving.cli.terminal.suggestions import usage_error
from tidemill.serving.cli.warehouse_options import RuntimeName, RuntimeOption
from tidemill.serving.render import fail

__all__ = ["app", "main"]

app = typer.Typer(
    name="tidemill",
    epilog="Start with:  tidemill demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"tidemill {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    log_level: Annotated[
        LogLevel | None, typer.Option("--log-level", help="Print log records of this level and above on stderr.")
    ] = None,
    log_json: Annotated[bool, typer.Option("--log-json", help="Print them as JSON lines, with all fields.")] = False,
) -> None:
    """Keep SQL views fresh at the cost of the change, not at the cost of the data."""
    if log_level is not None or log_json:
        print_log(log_level or LogLevel.info, as_json=log_json)


UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""The errors of usage of the library that reads the command line, which it does not always export."""


def main() -> None:
    """Run the command line: errors are printed with exit code 1, internal faults with 70, never a traceback."""
    prepare_completion()
    warnings.formatwarning = lambda message, *_, **__: f"note: {message}\n"
    try:
        code = app(prog_name="tidemill", standalone_mode=False)
    except UsageError as error:
        _wrong_usage(error)
    except TidemillError as error:
        if INTERRUPTS.ended_by(error):
            _interrupted()
        _stop(error)
    except (KeyboardInterrupt, typer.Abort):
        _interrupted()
    except BrokenPipeError:
        # The reader of the pipe, such as head, has closed it. Python must not write to it again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        _stop(SetupError("a file cannot be used", where=str(error.filename or ""), detail=error.strerror or str(error)))
    except Exception as error:
        if INTERRUPTS.ended_by(error):
            _interrupted()
        if os.environ.get("TIDEMILL_DEBUG"):
            raise
        from tidemill.engine.fault_reports import fault_report

        fault = InternalError("the command failed because of a fault in Tidemill")
        fault.reported(fault_report(error, f"tidemill {' '.join(sys.argv[1:2])}", {}, None))
        _stop(fault)
    else:
        if code == INTERRUPTED:
            _interrupted()
        sys.exit(code if isinstance(code, int) else 0)


def _interrupted() -> None:
    INTERRUPTS.report()
    sys.exit(INTERRUPTED)


def _wrong_usage(error: Any) -> None:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        fail(usage_error(error))
    sys.exit(error.exit_code)


def _stop(error: TidemillError) -> None:
    fail(error)
    sys.exit(FAULT if isinstance(error, InternalError) else 1)


FAULT = 70
"""Exit code for faults of Tidemill itself (EX_SOFTWARE of BSD's sysexits)."""


def demo(
    seconds: Annotated[float, typer.Option(help="How long changes stream in.")] = 60,
    runtime: RuntimeOption = RuntimeName.spark,
    folder: Annotated[Path | None, typer.Option(help="Keep the warehouse in this new folder.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed, another history.")] = 7,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="On a standalone cluster of Spark that it starts and stops here.")
    ] = False,
    files: Annotated[
        Path | None, typer.Option(help="Only write orders.csv and shop.sql, the files of the README, to this folder.")
    ] = None,
) -> None:
    """Watch views stay fresh while orders stream in.

    Six views over a small shop follow every change for a minute; at the end each is verified. On Spark the changes
    come by a streaming query, and it is shown what this process and what Spark did. Ctrl-C ends the changes, and what
    is there is verified; a second one ends the process.

    \b
    Examples:
      tidemill demo
      tidemill demo --cluster
      tidemill demo --seconds 15 --runtime native
      tidemill demo --folder shop     (then: tidemill show -w shop)
      tidemill demo --files .         (then: tidemill sql -f shop.sql; tidemill load orders orders.csv)
    """
    if files is not None:
        from tidemill.serving.demo.example_files import write_example_files

        print(f"wrote {', '.join(write_example_files(files))} to {files}")
        return
    from tidemill.serving.demo.run_demo import run_demo

    if cluster and runtime is not RuntimeName.spark:
        raise typer.BadParameter(f"a cluster is of Spark, not of runtime {runtime.value}", param_hint="--cluster")
    with INTERRUPTS.answered_here():
        good = run_demo(seconds=seconds, runtime=runtime.value, folder=folder, seed=seed, cluster=cluster)
    if not good:
        raise typer.Exit(1)


COMMANDS = (
    demo,
    sql,
    shell,
    load,
    objects,
    apply,
    watch,
    sync,
    feed,
    schedule,
    clock,
    show,
    explain,
    verify,
    audit,
    refreshes,
    costs,
    top,
    doctor,
    compact,
    vacuum,
    check,
    repair,
    backup,
    restore,
    clone,
    plan,
    deploy,
    promote,
    drop_stage,
    diff,
    serve,
    ui,
    bench,
    completion,
)
"""The commands in the order in which ``tidemill --help`` lists them."""

for command in COMMANDS:
    app.command()(command)
app.add_typer(pipelines, name="pipelines")
app.add_typer(builds, name="builds")
app.add_typer(user, name="user")
