"""Triangles of skewed graphs, as the benchmark counts and measures them."""

from __future__ import annotations

import pytest

from benchmarks.graphivm import triangles
from tidemill.runtimes.native.llvm.codegen import jit


def test_strategies_are_measured_and_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"TRACED": 2, "EPOCHS": 1, "BATCH": 20}.items():
        monkeypatch.setattr(triangles, name, value)
    monkeypatch.setattr(jit, "LEVEL", 0)
    triangles.main(["--edges", "200", "--strategies", "delta", "joingraph"])
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in printed] == [["delta", "200"], ["joingraph", "200"]]


def test_a_few_nodes_have_many_edges() -> None:
    edges = triangles.skewed(2_000, 7)
    assert sum(a == 0 for a, _ in edges) > 100
    assert edges == triangles.skewed(2_000, 7)
