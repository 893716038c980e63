"""The Nexmark queries and the tables that they read, for tests and for the benchmark."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
SCHEMA = (FOLDER / "schema.sql").read_text()
QUERIES = {file.stem: file.read_text() for file in sorted(FOLDER.glob("q*.sql"))}
