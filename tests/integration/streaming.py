"""A warehouse that follows a streaming frame of Spark, for the crash tests to cut short.

Run as ``python -m tests.integration.streaming FOLDER``: each file of the inbox is a batch, a partition and an epoch.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tidemill
from tidemill.runtimes.spark.sessions.session import stop_local_session

DDL = """CREATE STREAM s (ts TIMESTAMP, n INT) PARTITION BY ts EVERY 1 MINUTE LATENESS 5 MINUTES;
CREATE VIEW running AS
INITIALIZE running[k] AS SELECT SUM(n) AS n FROM s[k]
UPDATE running[i] AS SELECT SUM(n) AS n FROM (SELECT n FROM running[i-1] UNION ALL SELECT n FROM s[i]) AS x
PARTITION BY 1 MINUTE"""


def live(folder: Path) -> None:
    """Take in all files that Spark has not acknowledged."""
    with tidemill.open(folder / "w") as wh:
        if not wh.tables():
            wh.sql(DDL)
        source = wh.spark.readStream.schema("ts TIMESTAMP_NTZ, n INT").option("maxFilesPerTrigger", 1)
        wh.stream("s", source.json(str(folder / "inbox")), availableNow=True).awaitTermination()


if __name__ == "__main__":
    live(Path(sys.argv[1]))
    stop_local_session()
