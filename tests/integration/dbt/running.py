"""dbt in an environment and a process of its own, over a warehouse that this process serves."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tidemill
from tests.serving.pgwire.door import Door

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".versions" / "dbt" / "bin" / "python"
"""The Python of the environment that ``make versions`` makes."""

PROFILE = "{{jaffle: {{target: dev, outputs: {{dev: {{type: tidemill, port: {port}, dbname: shop, threads: 3}}}}}}}}"


@dataclass
class Done:
    """What a command did: the status and message of each node by its name, and what was logged."""

    success: bool
    nodes: dict[str, list[str]]
    logged: list[str]
    error: str | None

    @property
    def failures(self) -> list[str]:
        """What nodes that failed said, and the error of a command that could not run."""
        bad = [f"{name}: {said}" for name, (status, said) in self.nodes.items() if status in ("error", "fail")]
        return [*bad, *([self.error] if self.error else [])]

    def said(self, node: str) -> str:
        """The message of a node."""
        return self.nodes[node][1]


class Project:
    """A copy of the project ``jaffle``, and the dbt that runs it."""

    def __init__(self, wh: tidemill.Warehouse, door: Door, folder: Path) -> None:
        self.wh = wh
        self.folder = folder
        shutil.copytree(Path(__file__).parent / "jaffle", folder)
        (folder / "profiles.yml").write_text(PROFILE.format(port=door.port))
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "integrations" / "dbt" / "src"), "NO_COLOR": "1"}
        command = [str(PYTHON), "-W", "ignore", str(Path(__file__).parent / "commands.py")]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen(command, cwd=folder, env=environment, **pipes)

    def dbt(self, *arguments: str) -> Done:
        """Run one command."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        print(json.dumps(arguments), file=process.stdin, flush=True)
        line = next((line for line in process.stdout if line.startswith("@ ")), None)
        assert line is not None, "dbt has ended"
        return Done(**json.loads(line[2:]))

    def replace(self, file: str, old: str, new: str) -> None:
        """Write another text into a file of the project."""
        text = (self.folder / file).read_text()
        assert old in text
        (self.folder / file).write_text(text.replace(old, new))

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
