"""The options of a view, given in WITH: their names, values and meaning."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from tidemill.compiler.choose import AUTO, strategy_options
from tidemill.compiler.choose_plan import GOALS
from tidemill.compiler.frontends.sql.expressions.intervals import format_period, interval_of, microseconds_of
from tidemill.compiler.frontends.viewdf.partition_by import PARTITION_OPTION, view_partitioning
from tidemill.compiler.strategies import STRATEGIES
from tidemill.model.choices import nearest_choice
from tidemill.model.errors import Unsupported
from tidemill.model.partition_lengths import is_calendar
from tidemill.model.schema import Partitioning
from tidemill.model.types import Field

VIEW_OPTIONS = {
    "build": "now, or background: filled in slices while changes go on",
    "identity": "lineage: rows have identities, by which they are read and referred to; for views in OQL",
    "keep": "how many epochs of changes stay, for serve subscribe",
    "method": "auto, direct, panes, prefix, subtract, intervals or rolling, for sliding windows",
    "static": "tables that never change while the view is there, separated by commas",
    PARTITION_OPTION: "ts EVERY 1 MINUTE: the column and the length by which its rows fall into partitions",
    "retain": "how long its partitions stay, such as 2 days; for views with partitions",
    "runtime": "auto, native or spark",
    "refresh": "immediate, deferred, scheduled or every N seconds, minutes, hours",
    "weight": "how much its staleness counts beside that of other scheduled views",
    "protocol": "how a view over sources is kept: eca, eca_key, eca_local, lca, sweep, copies or recompute",
    "consistency": "how right it is meanwhile: convergent, weak, consistent, strong or complete",
    "copy": "refused or allowed: rows of sources that the view does not show may be held here",
    "optimize": "what strategy auto looks for: balanced, latency or memory",
    "publish": "delta or iceberg: the view is published as such a table",
    "location": "where it is published",
    "mode": "merge, snapshot or changes: what is published",
    "publish_every": "manual, continuous, every N seconds, minutes, hours, or every N epochs",
    "write": "merge-on-read or copy-on-write: how rows of the published table are deleted",
    "compact_files": "how many small files of the published table are written as one, or off",
    "vacuum": "how long files of old versions of the published table stay, such as 7 days, or off",
    "epochs_table": "where the table of epochs is, or off",
    "catalog": "the SQLite file of the catalog in which it is published, for iceberg",
    "catalog_name": "the name of that catalog, or of one that pyiceberg's configuration has",
    "clock": "wall, event, or the column of a table that it follows, such as orders.placed_at: what now() is",
    "require": "incremental or bounded: refuse the view if it would be computed again, or keeps state for ever",
    "on_error": "refuse, quarantine or null: what a row does that cannot be computed",
}
"""The options that no strategy declares."""


PLAN_OPTIONS = ("strategy", "optimize", "depth", "lookahead", "method", "static", "runtime")
"""The options by which a view is planned: with others it may have another program, which shows the same rows."""

_FIRST_ROWS = "It says what is kept of sources, from the first rows on."

FIXED_OPTIONS = {
    "serve": "It says whether rows are stored and changes published, from the first rows on.",
    "build": "It says how the view is filled, which is done.",
    "clock": "It says what now() is, from the first rows on.",
    "identity": "It says which columns the view has.",
    "protocol": _FIRST_ROWS,
    "consistency": _FIRST_ROWS,
    "copy": _FIRST_ROWS,
}
"""The options that ALTER VIEW cannot change, with the reasons."""


def view_options() -> dict[str, str]:
    """Every option of a view, with its values in words."""
    return {"strategy": ", ".join((AUTO, *STRATEGIES)), **strategy_options(), **VIEW_OPTIONS}


ALTERABLE_OPTIONS = tuple(option for option in view_options() if option not in FIXED_OPTIONS)
"""The options that ALTER VIEW can change."""


def require_known_options(name: str, options: Iterable[str]) -> None:
    """Refuse an option that no view has, with the closest one that there is.

    >>> require_known_options("v", ["refesh"])
    Traceback (most recent call last):
    tidemill.model.errors.Unsupported: view "v" has an unknown option "refesh"
    hint: Did you mean "refresh"?
    """
    known = view_options()
    for option in options:
        if option not in known:
            close = difflib.get_close_matches(option, known, n=1)
            meanings = "; ".join(f"{key}: {values}" for key, values in known.items())
            hint = f'Did you mean "{close[0]}"?' if close else f"Options are {meanings}."
            raise Unsupported(f'view "{name}" has an unknown option "{option}"', hint=_ELSEWHERE.get(option, hint))


def require_alterable_options(name: str, options: Collection[str]) -> None:
    """Refuse options that there are none of, or that say something about what is there already."""
    require_known_options(name, options)
    for option in options:
        if option in FIXED_OPTIONS:
            raise Unsupported(
                f'option "{option}" of view "{name}" cannot be altered',
                detail=FIXED_OPTIONS[option],
                hint="Use CREATE OR REPLACE MATERIALIZED VIEW, with all of its options.",
            )


_ELSEWHERE = {"sync": "It is an option of sources and feeds: ALTER SOURCE name SET (sync = 'continuous')."}
"""Options that others have, with what to do."""


DEFAULT_KEPT_EPOCHS = 1_000
"""Default of the option ``keep``: the number of epochs whose changes a subscribe-only view keeps."""


def kept_epochs(options: Mapping[str, str], name: str) -> int:
    """The number of epochs of changes to keep, by the option ``keep``.

    >>> kept_epochs({"keep": "50"}, "v")
    50
    """
    text = str(options.get("keep", DEFAULT_KEPT_EPOCHS))
    if not text.isdecimal() or int(text) < 1:
        raise Unsupported(f'view "{name}" cannot keep "{text}" epochs of changes', hint="Use a number from 1 on.")
    return int(text)


def partitioning_of(
    options: Mapping[str, str], name: str, fields: Sequence[Field], made_by: Partitioning | None
) -> Partitioning | None:
    """The partitioning of a view with these columns: that which it is ``made_by``, or that of the option
    ``partition_by``; with the retention of the option ``retain``."""
    text = options.get(PARTITION_OPTION)
    if text is not None and made_by is not None:
        raise Unsupported(
            f'view "{name}" cannot have PARTITION BY a column',
            detail=f"It is made by partitions, EVERY {format_period(made_by.every)} of {made_by.column}.",
            hint="Leave it out: other views read the partitions of this one as it is.",
        )
    return with_retention(options, name, made_by if text is None else view_partitioning(name, text, fields))


def with_retention(options: Mapping[str, str], name: str, cut: Partitioning | None) -> Partitioning | None:
    """The partitioning of a view, with the retention of the option ``retain``."""
    if "retain" not in options:
        return cut
    length = microseconds_of(interval_of(options["retain"]))
    if cut is None or length <= 0 or (length % cut.every and not is_calendar(cut.every)):
        raise Unsupported(
            f'view "{name}" cannot retain "{options["retain"]}"',
            detail="It has no partitions." if cut is None else f"Its partitions are {format_period(cut.every)} long.",
            hint="Views with partitions can retain a number of these: retain = '2 days'.",
        )
    return replace(cut, retain=length)


def requires_incremental(options: Mapping[str, str], name: str) -> bool:
    """True if a view must be incremental, by the option ``require``."""
    wanted = options.get("require", "")
    if wanted not in ("", "incremental", "bounded"):
        raise Unsupported(
            f'unknown requirement "{wanted}"',
            detail=f'It is the option require of view "{name}".',
            hint="Known: incremental, bounded.",
        )
    return wanted == "incremental"


ERROR_POLICIES = ("refuse", "quarantine", "null")


def error_policy(options: Mapping[str, str], name: str) -> str:
    """The policy for rows that the view cannot compute: the option ``on_error``.

    >>> error_policy({}, "v")
    'refuse'
    """
    policy = options.get("on_error", ERROR_POLICIES[0])
    if policy not in ERROR_POLICIES:
        hint = nearest_choice(policy, ERROR_POLICIES)
        raise Unsupported(f'view "{name}" has no on_error = "{policy}"', hint=hint)
    return policy


def optimization_goal(options: Mapping[str, str], name: str) -> str:
    """The goal of strategy ``auto``, by the option ``optimize``."""
    goal = options.get("optimize", GOALS[0])
    if goal not in GOALS:
        known = ", ".join(GOALS)
        raise Unsupported(f'view "{name}" cannot be optimized for "{goal}"', hint=f"Known: {known}.")
    return goal


def static_tables(options: Mapping[str, str]) -> frozenset[str]:
    """The tables that the option ``static`` declares to never change.

    >>> sorted(static_tables({"static": "nation, Region"}))
    ['nation', 'region']
    """
    return frozenset(word.strip().lower() for word in options.get("static", "").split(",") if word.strip())
