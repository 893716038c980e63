"""Sessions: ours is tuned, a given one is left alone."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pyarrow as pa
import pytest

from tidemill.runtimes.spark.execution.arrow_frames import frame_of_arrow
from tidemill.runtimes.spark.sessions.session import (
    SEMANTIC_SETTINGS,
    activate,
    cores_of,
    given_session,
    local_session,
)

pytestmark = pytest.mark.spark


def test_the_local_session_is_one_and_the_same(spark):
    assert local_session() is spark


def test_a_given_session_keeps_its_settings(spark):
    theirs = spark.newSession()
    theirs.conf.set("spark.sql.ansi.enabled", "false")
    theirs.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    ours = given_session(theirs)
    assert ours is given_session(theirs), "asked again, it is the same branch"
    assert {key: ours.conf.get(key) for key in SEMANTIC_SETTINGS} == SEMANTIC_SETTINGS
    assert theirs.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    assert theirs.conf.get("spark.sql.ansi.enabled") == "false"
    ours.range(1).createOrReplaceTempView("`tidemill: mine`")
    assert not theirs.catalog.tableExists("`tidemill: mine`")


def test_a_given_session_stays_the_active_one(spark):
    activate(spark)
    frame_of_arrow(given_session(spark.newSession()), pa.table({"a": [1]}))
    assert spark.getActiveSession() is spark


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local", 1), ("local[3]", 3), ("local[5, 2]", 5), ("local[*]", os.cpu_count()), ("spark://host:7077", 7)],
)
def test_as_many_tasks_as_cores(master, cores):
    context = SimpleNamespace(master=master, defaultParallelism=7)
    assert cores_of(SimpleNamespace(sparkContext=context, _jsparkSession=None)) == cores
