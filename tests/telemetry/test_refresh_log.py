"""The refresh log: what epochs and views cost, kept beside the commits, on which nothing depends."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import tidemill
from tidemill.engine.telemetry import recorder
from tidemill.engine.telemetry.refresh import Refresh
from tidemill.model.errors import DuplicateKey, InvalidArgument, ParseError, SetupError, UnknownName
from tidemill.storage.bounded_log import BoundedLog


def filled(wh: tidemill.Warehouse, epochs: int = 5) -> tidemill.Warehouse:
    wh.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT)")
    wh.sql("CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
    wh.sql("CREATE MATERIALIZED VIEW w AS SELECT n, COUNT(*) AS groups FROM v GROUP BY n")
    for number in range(epochs):
        wh.apply({"t": [(1, (number, number % 3))]})
    return wh


def of_changes(entries: list[Refresh], view: str | None) -> list[Refresh]:
    return [entry for entry in entries if entry.view == view and entry.way != "filled" and entry.rows_in]


@pytest.mark.parametrize("disk", [False, True])
def test_every_epoch_and_view_is_counted(disk: bool, tmp_path: Path) -> None:
    with tidemill.open(tmp_path if disk else ":memory:") as wh:
        filled(wh)
        found = wh.refreshes()
    for view, rows_in, rows_out in ((None, 5, None), ("v", 5, 5 + 2), ("w", 5 + 2, None)):
        some = of_changes(found, view)
        assert sum(entry.epochs for entry in some) == 5
        assert max(entry.epoch for entry in some) == 5
        assert sum(entry.rows_in for entry in some) == rows_in
        assert rows_out is None or sum(entry.rows_out for entry in some) == rows_out
        assert all(0 < entry.slowest <= entry.seconds + 1e-6 for entry in some)
        assert bool(sum(entry.bytes for entry in some)) == disk
    for entry in of_changes(found, "v"):
        assert (entry.way, entry.runtime, entry.strategy) == ("incremental", "native", "delta")
        assert entry.reason
    assert [entry.way for entry in found if entry.view == "w" and entry.way != "incremental"] == ["filled"]


def test_small_epochs_share_an_entry_and_slow_ones_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "WRITE_SECONDS", 1e9)
    monkeypatch.setattr(recorder, "SLOW_SECONDS", 1e9)
    with tidemill.open(":memory:") as wh:
        filled(wh, 50)
        assert len(of_changes(wh.refreshes("v"), "v")) == 1
        monkeypatch.setattr(recorder, "SLOW_SECONDS", 0.0)
        for number in range(3):
            wh.apply({"t": [(1, (100 + number, 1))]})
        assert [entry.epochs for entry in wh.refreshes("v", limit=3)] == [1, 1, 1]


def test_another_process_reads_it_and_it_goes_on_after_opening(tmp_path: Path) -> None:
    with tidemill.open(tmp_path) as wh:
        filled(wh)
    with tidemill.open(tmp_path) as wh:
        wh.apply({"t": [(1, (10, 1))]})
        with tidemill.open(tmp_path, read_only=True) as reader:
            before = len(reader.refreshes())
    with tidemill.open(tmp_path, read_only=True) as reader:
        found = of_changes(reader.refreshes("v"), "v")
        assert before and sum(entry.epochs for entry in found) == 6
        assert found == sorted(found, key=lambda entry: entry.time, reverse=True)


def test_a_period_an_epoch_and_a_time(tmp_path: Path) -> None:
    with tidemill.open(tmp_path) as wh:
        filled(wh)
        wh.refreshes()
        wh.apply({"t": [(1, (10, 1))]})
        assert {entry.epoch for entry in wh.refreshes(since=5)} == {6}
        assert wh.refreshes(since=timedelta(hours=1)) == wh.refreshes()
        assert wh.refreshes(since=datetime.now(UTC) + timedelta(hours=1)) == []
        assert len(wh.sql("SHOW REFRESHES OF v SINCE 5 LIMIT 10")) == 1
        assert len(wh.sql("SHOW REFRESHES SINCE '1 hour' LIMIT 2")) == 2
        assert not wh.sql("SHOW REFRESHES SINCE '2999-01-01 00:00'")
        assert wh.sql("SHOW REFRESHES").arrow().num_rows == len(wh.refreshes())
        with pytest.raises(ParseError, match="no epoch, time or period"):
            wh.sql("SHOW REFRESHES SINCE 'soon'")
        with pytest.raises(ParseError):
            wh.sql("SHOW COSTS ORDER BY name")
        with pytest.raises(UnknownName):
            wh.refreshes("nothing")


def test_costs_and_state(tmp_path: Path) -> None:
    with tidemill.open(tmp_path) as wh:
        filled(wh)
        costs = {one.view: one for one in wh.view_costs()}
        assert costs.keys() == {"v", "w"}
        assert (costs["v"].refreshes, costs["v"].recomputed, costs["v"].rows_in) == (6, 1, 5)
        assert abs(sum(one.share for one in costs.values()) - 1) < 1e-9
        sizes = {size.map: size for size in wh.state_sizes("v")}
        assert sizes["v"].disk_bytes > 0 and sizes["v/groups"].memory_bytes > 0 and sizes["v/groups"].entries == 3
        assert costs["v"].disk_bytes == sum(size.disk_bytes for size in sizes.values())
        by_state = wh.view_costs(by="state", limit=1)[0]
        assert by_state.state == max(one.state for one in costs.values())
        assert wh.sql("SHOW COSTS ORDER BY bytes LIMIT 1").columns[0] == "view"
        assert {row[0] for row in wh.sql("SHOW STATE OF w")} == {"w"}
        assert any(name == "State on disk" for name, *_ in wh.sql("DESCRIBE EXTENDED v"))
        with pytest.raises(InvalidArgument, match="cannot be sorted"):
            wh.view_costs(by="name")
        for ask in (wh.view_costs, wh.refreshes):
            assert ask(limit=0) == [] and ask(limit=1 << 62) == ask()
            with pytest.raises(InvalidArgument, match="limit is -1"):
                ask(limit=-1)


def test_ways_have_their_reasons() -> None:
    with tidemill.open(":memory:") as wh:
        wh.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT)")
        wh.sql("CREATE MATERIALIZED VIEW d WITH (refresh = 'deferred') AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
        wh.apply({"t": [(1, (1, 1))]})
        assert not of_changes(wh.refreshes("d"), "d")
        wh.sql("REFRESH VIEW d")
        newest = wh.refreshes("d")[0]
        assert (newest.way, newest.rows_in, newest.rows_out) == ("caught up", 1, 1)
        assert "created" in wh.refreshes("d")[-1].reason


def test_refused_epochs_are_not_recorded() -> None:
    with tidemill.open(":memory:") as wh:
        filled(wh, 1)
        before = sum(entry.epochs for entry in wh.refreshes())
        with pytest.raises(DuplicateKey):
            wh.apply({"t": [(1, (0, 9))]})
        assert sum(entry.epochs for entry in wh.refreshes()) == before


@pytest.mark.parametrize("damage", ["garbage", "torn", "binary", "packed", "link", "file", "gone", "rights"])
def test_a_damaged_log_hinders_nothing(damage: str, tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "wh") as wh:
        filled(wh)
    folder = tmp_path / "wh" / "refreshes"
    file = folder / "00000001.jsonl"
    whole = file.read_bytes()
    match damage:
        case "garbage":
            file.write_text('[1]\n{"a": 2}\n[]\nnull\n' + "[" * 100_000 + "\n")
        case "torn":
            file.write_bytes(whole[:-20])
        case "binary":
            file.write_bytes(os.urandom(5_000))
        case "packed":
            file.unlink()
            (folder / "00000001.jsonl.gz").write_bytes(b"\x1f\x8b no gzip")
        case "link" | "file" | "gone":
            file.unlink()
            folder.rmdir()
            if damage == "link":
                (tmp_path / "elsewhere").mkdir()
                folder.symlink_to(tmp_path / "elsewhere")
            elif damage == "file":
                folder.write_text("")
        case "rights":
            file.chmod(0o400)
    with tidemill.open(tmp_path / "wh") as wh:
        wh.apply({"t": [(1, (10, 1))]})
        assert len(wh.table("t")) == 6
        wh.refreshes()
    assert tidemill.check(tmp_path / "wh").ok
    if damage == "link":
        assert not list((tmp_path / "elsewhere").iterdir())
    if damage in ("garbage", "torn", "binary", "packed"):
        with tidemill.open(tmp_path / "wh", read_only=True) as wh:
            assert 6 in {entry.epoch for entry in wh.refreshes("v")}


def test_a_killed_process_loses_the_last_second_at_most(tmp_path: Path) -> None:
    script = f"""
import os, tidemill
wh = tidemill.open({str(tmp_path / "wh")!r})
wh.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT)")
wh.sql("CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
for number in range(20):
    wh.apply({{"t": [(1, (number, 1))]}})
os._exit(9)
"""
    search = {**os.environ, "PYTHONPATH": str(Path(tidemill.__file__).parent.parent)}
    assert subprocess.run([sys.executable, "-c", script], env=search, check=False).returncode == 9
    with tidemill.open(tmp_path / "wh") as wh:
        assert wh.epoch == 20 and len(wh.table("t")) == 20
        assert [entry.way for entry in wh.refreshes("v")][-1:] == ["filled"]


def test_it_is_bounded_and_the_newest_entries_stay(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path / "log", 8_000)
    for number in range(3_000):
        log.append(f"{number} {'x' * 40}\n")
    log.close()
    assert sum(file.stat().st_size for file in (tmp_path / "log").iterdir()) <= 8_000
    lines = list(log.lines())
    numbers = [int(line.split()[0]) for line in lines]
    assert numbers == list(range(2_999, 2_999 - len(numbers), -1)) and len(numbers) > 100


def test_its_lines_go_with_time_and_the_newest_entries_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000_000.0
    monkeypatch.setattr("tidemill.storage.bounded_log.time.time", lambda: now)
    for hour in range(0, 100, 5):  # a process each five hours
        log = BoundedLog(tmp_path, 1 << 20, seconds=24 * 3600)
        for step in range(5):
            now = 1_000_000.0 + (hour + step) * 3600
            log.append(f"{hour + step}\n")
            for file in tmp_path.iterdir():
                if file.stat().st_mtime > 1e9:  # just written, at a real time
                    os.utime(file, (now, now))
        log.close()
    hours = [int(line) for line in log.lines()]
    assert hours[:24] == list(range(99, 75, -1))
    assert len(hours) <= 24 + 24 // 8 + 5


def test_a_limit_in_time_is_an_option(tmp_path: Path) -> None:
    with tidemill.open(tmp_path, refresh_log="1MB, 7 days") as wh:
        filled(wh)
        assert of_changes(wh.refreshes(), "v")
    with pytest.raises(SetupError, match="is not an amount of memory"):
        tidemill.open(tmp_path, refresh_log="7 dogs")


def test_none_is_written_where_that_is_asked_for(tmp_path: Path) -> None:
    with tidemill.open(tmp_path, refresh_log=0) as wh:
        filled(wh)
        assert of_changes(wh.refreshes(), "v")
    assert not (tmp_path / "refreshes").exists()


def test_records_of_logging_have_fields(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="tidemill")
    with tidemill.open(":memory:") as wh:
        filled(wh, 2)
        with pytest.raises(DuplicateKey):
            wh.apply({"t": [(1, (0, 4711))]})
    epochs = [record for record in caplog.records if getattr(record, "tm_phase", "") == "commit"]
    assert {record.tm_epoch for record in epochs} >= {1, 2}
    assert "filled" in [getattr(record, "tm_way", "") for record in caplog.records if record.levelno == logging.INFO]
    (refused,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert refused.tm_error == "DuplicateKey"
    assert not any("4711" in record.getMessage() or "4711" in str(vars(record)) for record in caplog.records)


def test_logging_is_silent_by_default() -> None:
    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("tidemill").handlers)
    assert recorder._listening() == []


def test_epochs_are_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="opentelemetry-sdk is not installed")
    from opentelemetry import trace
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    with tidemill.open(":memory:") as wh, provider.get_tracer("test").start_as_current_span("caller") as caller:
        filled(wh, 1)
    spans = {(span.name, span.attributes.get("tidemill.view")): span for span in exporter.get_finished_spans()}
    epoch, view = spans["tidemill.epoch", None], spans["tidemill.refresh", "v"]
    assert epoch.parent.span_id == caller.get_span_context().span_id
    assert view.parent.trace_id == epoch.context.trace_id and view.attributes["tidemill.rows_in"] == 1
    assert epoch.start_time <= view.start_time <= view.end_time <= epoch.end_time
