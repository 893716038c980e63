"""`tidemill bench evolve`: a replaced chain has the rows of a rebuilt one, however few there are."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from tidemill.serving.cli.bench_runner import BenchmarkOptions, Figure

evolve = import_module("benchmarks.evolve.run")


@pytest.mark.parametrize("case", evolve.CASES)
def test_a_case(tmp_path: Path, case: str) -> None:
    figures = {figure.metric: figure for figure in evolve.measure(tmp_path / "w", case, 3_000)}
    assert set(figures) == {"replace", "faster", "writer waits at most"}
    assert all(figure.value > 0 and figure.case == case for figure in figures.values())


def test_an_answer_that_differs_is_no_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([{"c5": [(1,)]}, {"c5": [(2,)]}])
    monkeypatch.setattr(evolve, "_answers", lambda wh: next(found))
    with pytest.raises(AssertionError, match="differs from the rebuilt one"):
        list(evolve.measure(tmp_path / "w", "filter of rows", 100))


def test_the_table_has_a_line_for_each_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(folder: Path, name: str, rows: int) -> list[Figure]:
        asked.append((name, rows))
        kinds = (("replace", "s", "rebuilt in 2.00 s"), ("faster", "times", ""), ("writer waits at most", "ms", ""))
        return [Figure("evolve", name, metric, 1.0, unit, baseline) for metric, unit, baseline in kinds]

    asked: list[tuple[str, int]] = []
    monkeypatch.setattr(evolve, "measure", measure)
    options = BenchmarkOptions(folder=tmp_path, scale=0.5, queries=("column_of_rows", "filter_of_rows"))
    table = evolve.as_table(list(evolve.run(options)))
    assert asked == [("filter of rows", 1_000_000), ("column of rows", 1_000_000)]
    assert table.row_count == 2
