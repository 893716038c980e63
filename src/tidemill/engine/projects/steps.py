"""The steps of a deployment, with what they cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tidemill.compiler.frontends.script import statements as sql

__all__ = ["DeployPlan", "DeployStep"]


@dataclass(frozen=True)
class DeployStep:
    """One definition that is created, altered, replaced in place, rebuilt or dropped.

    A view is rebuilt, in place as well, whose own text is the same, and which is another one by what it reads.
    ``rows`` are those that have to be read to fill a view, ``bytes`` the predicted size of its state and ``visits``
    the predicted entries that a changed row visits; None where that is not known before its inputs are there.
    """

    action: str
    name: str
    kind: str
    reason: str = ""
    rows: int | None = None
    bytes: float | None = None
    visits: float | None = None
    statements: tuple[sql.Statement, ...] = ()
    apart: Literal["", "before", "after"] = ""
    """When a view is created that gets its first rows in epochs of its own: from a source, or in the background."""

    def __str__(self) -> str:
        costs = [f"reads {self.rows:,} rows"] if self.rows is not None else []
        costs += [f"about {self.bytes:,.0f} bytes of state"] if self.bytes is not None else []
        costs += [f"{self.visits:,.1f} visits a change"] if self.visits is not None else []
        said = "; ".join(filter(None, [self.reason, ", ".join(costs)]))
        return f"{self.action:8} {self.kind} {self.name}{f'  ({said})' if said else ''}"


@dataclass(frozen=True)
class DeployPlan:
    """The steps of a deployment in their order, and tables and views that the project does not name and that stay.

    ``stages`` are those that there are, which wait to be promoted or dropped.
    """

    steps: tuple[DeployStep, ...]
    unchanged: int = 0
    left: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.steps)

    def __str__(self) -> str:
        lines = [str(step) for step in self.steps]
        if not lines:
            lines.append("the warehouse has what the project says")
        if self.left:
            lines.append(f"not in the project, and left: {', '.join(self.left)}")
        lines += [f"stage {stage} waits to be promoted" for stage in self.stages]
        return "\n".join(lines)
