"""The order in which datasets are made: each after all that it reads."""

from __future__ import annotations

from tidemill.model.errors import Unsupported
from tidemill.serving.pipelines.external_tables import is_file_table
from tidemill.serving.pipelines.project import Dataset, Name, Project

__all__ = ["inputs_of", "ordered"]


def inputs_of(project: Project, dataset: Dataset) -> list[Name] | None:
    """The datasets that one reads; None if a function must run to tell."""
    cdc = project.cdc_of(dataset.name)
    found = [cdc.source] if cdc is not None else []
    for flow in project.flows_of(dataset.name):
        reads = flow.reads()
        if reads is None:
            return None
        found += [project.resolve(parts, flow.scope) for parts in reads if not is_file_table(parts)]
    return [name for name in dict.fromkeys(found) if name in project.datasets]


def ordered(project: Project) -> list[Dataset]:
    """All datasets, each after those that it reads. One whose inputs are not known comes as late as it can."""
    inputs = {name: inputs_of(project, dataset) for name, dataset in project.datasets.items()}
    for name, known in inputs.items():
        if known is None:
            inputs[name] = [other for other in project.datasets if other != name and not _reaches(inputs, other, name)]
    made: list[Dataset] = []
    done: set[Name] = set()

    def visit(name: Name, path: tuple[Name, ...]) -> None:
        if name in path:
            circle = " -> ".join(project.shown(one) for one in (*path[path.index(name) :], name))
            raise Unsupported(
                "datasets of the pipeline read each other in a circle",
                where=project.datasets[name].place,
                detail=circle,
                hint="Let one of them read something else.",
            )
        if name in done:
            return
        for below in inputs[name] or ():
            visit(below, (*path, name))
        done.add(name)
        made.append(project.datasets[name])

    for name in project.datasets:
        visit(name, ())
    return made


def _reaches(inputs: dict[Name, list[Name] | None], start: Name, goal: Name) -> bool:
    """True if ``start`` reads ``goal``, perhaps through others."""
    seen, waiting = {start}, [start]
    while waiting:
        below = inputs.get(waiting.pop()) or ()
        if goal in below:
            return True
        waiting += [one for one in below if one not in seen]
        seen |= {*below}
    return False
