"""Options of ``format("tidemill")``, which are texts in any case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from tidemill.model.errors import InvalidArgument

__all__ = ["SourceOptions"]

KNOWN = (
    "batch",
    "changes",
    "checkpointlocation",
    "epoch",
    "fresh",
    "intake",
    "maxepochsperbatch",
    "maxrowsperbatch",
    "path",
    "query",
    "sequenceby",
    "since",
    "warehouse",
)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options of a read or write of ``relation``, a table or view of the folder ``warehouse``."""

    warehouse: str
    relation: str
    changes: bool = False
    epoch: int | None = None
    fresh: bool = False
    since: int | None = None
    max_rows: int | None = None
    max_epochs: int | None = None
    intake: str = "append"
    sequence_by: str | None = None
    query: str | None = None
    batch: int | None = None

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self:
        """The options of a reader or writer; an option that is not known is refused.

        >>> SourceOptions.parse({"warehouse": "shop", "PATH": "spend", "epoch": "3"}).epoch
        3
        """
        options = {name.lower(): value for name, value in given.items()}
        for name in sorted(options.keys() - KNOWN):
            raise InvalidArgument(
                f'format "tidemill" has no option "{name}"', hint=f"Known: {', '.join(sorted(KNOWN))}."
            )
        return cls(
            warehouse=_required(options, "warehouse", 'option("warehouse", folder)'),
            relation=_required(options, "path", 'load("spend"), or save("orders")'),
            changes=_flag(options, "changes"),
            epoch=_number(options, "epoch"),
            fresh=_flag(options, "fresh"),
            since=_number(options, "since"),
            max_rows=_number(options, "maxrowsperbatch"),
            max_epochs=_number(options, "maxepochsperbatch"),
            intake=options.get("intake", "append"),
            sequence_by=options.get("sequenceby"),
            query=options.get("query"),
            batch=_number(options, "batch"),
        )


def _required(options: Mapping[str, str], name: str, hint: str) -> str:
    if not options.get(name):
        raise InvalidArgument(f'format "tidemill" needs the option "{name}"', hint=f"Give {hint}.")
    return options[name]


def _flag(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "false").lower() == "true"


def _number(options: Mapping[str, str], name: str) -> int | None:
    value = options.get(name)
    if value is None:
        return None
    if not value.isdecimal():
        raise InvalidArgument(f'option "{name}" cannot be "{value}"', hint="It is a whole number, 0 or more.")
    return int(value)
