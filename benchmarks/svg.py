"""How plots look: text stays text, and the same figures give the same file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")

from matplotlib.figure import Figure as Canvas

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tidemill",
    "font.size": 8,
    "axes.grid": True,
    "grid.alpha": 0.25,
}


@contextmanager
def drawn(file: Path, width: float, height: float) -> Iterator[Canvas]:
    """A canvas in this style, so many inches wide and high; it is written to ``file`` at the end."""
    with matplotlib.rc_context(STYLE):
        canvas = Canvas(figsize=(width, height), layout="constrained")
        yield canvas
        file.parent.mkdir(parents=True, exist_ok=True)
        canvas.savefig(file, format="svg", metadata={"Date": None})
