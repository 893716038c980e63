"""A process that deploys a project, or executes a statement, for crash tests to cut short.

Run as ``python -m tests.evolution.deploying WAREHOUSE MODELS``, or with a statement in place of the folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tidemill

if __name__ == "__main__":
    place, given = sys.argv[1:]
    if Path(given).is_dir():
        tidemill.deploy(given, place, runtime="native")
    else:
        with tidemill.open(place, runtime="native", backend="python") as wh:
            wh.sql(given)
