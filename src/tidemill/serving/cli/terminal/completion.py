"""Completion by the user's shell: the scripts that it sources, and the names of a warehouse's tables and views."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["ShellName", "complete_relation", "complete_table", "complete_view", "completion", "prepare_completion"]

VARIABLE = "_TIDEMILL_COMPLETE"
"""The variable by which a shell asks for completions, instead of running a command."""


class ShellName(StrEnum):
    """A shell that can complete commands."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(shell: Annotated[ShellName, typer.Argument(help="The shell.")]) -> None:
    """Print the script that lets a shell complete commands, options, tables and views.

    \b
    Examples:
      source <(tidemill completion bash)                                    (in ~/.bashrc)
      source <(tidemill completion zsh)                                     (in ~/.zshrc, after compinit)
      tidemill completion fish > ~/.config/fish/completions/tidemill.fish
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    print(get_completion_script(prog_name="tidemill", complete_var=VARIABLE, shell=shell.value))


def prepare_completion() -> None:
    """Register the shells that can ask for completions; does nothing in an ordinary run."""
    if VARIABLE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()


def complete_relation(ctx: typer.Context, incomplete: str) -> list[str]:
    """The tables and views of the warehouse that the command names."""
    return _matching(ctx, incomplete, "table", "view")


def complete_table(ctx: typer.Context, incomplete: str) -> list[str]:
    """The tables and streams of the warehouse that the command names."""
    return _matching(ctx, incomplete, "table")


def complete_view(ctx: typer.Context, incomplete: str) -> list[str]:
    """The materialized views of the warehouse that the command names."""
    return _matching(ctx, incomplete, "view")


def _matching(ctx: typer.Context, incomplete: str, *kinds: str) -> list[str]:
    folder = ctx.params.get("warehouse") or os.environ.get("TIDEMILL_WAREHOUSE") or "warehouse"
    try:
        names = [name for kind, name in _relations(Path(folder)) if kind in kinds]
    except (OSError, ValueError, LookupError, TypeError):
        return []  # a shell that completes has no place for an error
    return [name for name in names if name.startswith(incomplete.lower())]


_CREATED = re.compile(r"CREATE \w+ `(\w+)`")


def _relations(folder: Path) -> Iterator[tuple[str, str]]:
    """Kind and name of each table and view, from the newest manifest of a folder that has the catalog.

    Opening the warehouse would load the engine and compile its views; a shell waits for this at every key.
    """
    for file in sorted((folder / "manifests").glob("*.json"), reverse=True):
        with file.open(encoding="utf-8") as lines:
            catalog: dict[str, Any] | None = json.loads(lines.readline()).get("catalog")
        if catalog is not None:
            for entry in catalog["entries"]:
                made = _CREATED.match(entry.get("ddl", ""))
                yield entry["kind"], entry["name"] if made is None else made[1]
            return
