"""Delta tables in S3, read and published: an S3 server on this machine answers the requests."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tidemill
from tests.lake.delta_history import FEED, rows_of

SECRET = "aSecretThatNobodyMayRead"

SERVE = """
import logging, sys
from moto.server import ThreadedMotoServer
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A server in a process of its own: deltalake keeps Python's lock while it waits for an answer."""
    with subprocess.Popen([sys.executable, "-c", SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.stdin.close()


@pytest.mark.parametrize("feed", ["true", "false"])
def test_from_a_bucket_to_a_bucket(server: str, monkeypatch: pytest.MonkeyPatch, feed: str) -> None:
    given = {"AWS_ENDPOINT_URL": server, "AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": SECRET}
    for name, value in (given | {"AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}).items():
        monkeypatch.setenv(name, value)
    urllib.request.urlopen(urllib.request.Request(f"{server}/{feed}", method="PUT")).read()
    lake, out = f"s3://{feed}/lake/orders", f"s3://{feed}/lake/totals"
    rows = pa.table({"id": range(20), "g": ["a b", "c/d"] * 10})
    write_deltalake(lake, rows, partition_by=["g"], configuration={FEED: feed})
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(f"CREATE TABLE orders USING delta LOCATION '{lake}'")
        options = f"publish = delta, location = '{out}'"
        wh.sql(f"CREATE MATERIALIZED VIEW v WITH ({options}) AS SELECT g, SUM(id) AS s FROM orders GROUP BY g")
        for change in ("id < 5", "id = 7"):
            DeltaTable(lake).delete(change)
            wh.sync()
            assert Counter(wh.table("orders").rows()) == rows_of(lake)
            assert Counter(wh.view("v").rows()) == rows_of(out)
        with pytest.raises(tidemill.TidemillError) as refused:
            wh.sql(f"CREATE TABLE nothing USING delta LOCATION '{lake}/nothing'")
        assert SECRET not in refused.value.render()
        assert SECRET not in "".join(map(str, wh.sql("SHOW TABLES").rows()))
