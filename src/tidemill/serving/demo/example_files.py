"""The files that the README begins with: orders, and the statements for a table and a view of them."""

from __future__ import annotations

import shutil
from pathlib import Path

from tidemill.model.errors import SetupError

__all__ = ["write_example_files"]

FILES = Path(__file__).parent / "files"


def write_example_files(folder: Path) -> list[str]:
    """Copy the files into a folder; returns their names. A file of somebody else is never written over."""
    folder.mkdir(parents=True, exist_ok=True)
    files = sorted(path for path in FILES.iterdir() if path.suffix in (".csv", ".sql"))
    for file in files:
        target = folder / file.name
        if target.exists() and target.read_bytes() != file.read_bytes():
            raise SetupError(
                "there is another file of this name",
                where=str(target),
                hint="Name another folder: tidemill demo --files FOLDER.",
            )
    for file in files:
        shutil.copyfile(file, folder / file.name)
    return [file.name for file in files]
