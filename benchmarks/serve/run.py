"""The cases: posts, a thousand subscribers, reads by key, a kill under load. Answers are checked before figures."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer

import tidemill
from benchmarks.serve import pgwire
from benchmarks.serve.posts import Load, post_rows
from benchmarks.serve.resuming import Readers
from benchmarks.serve.served import created, served, started
from benchmarks.serve.subscribers import Subscribers
from tidemill.serving.cli.bench_runner import BenchmarkOptions, Figure

__all__ = ["run", "survive"]

CLIENTS, SUBSCRIBERS, CHANGES = 64, 1000, 1000.0
"""Clients that post, readers of live changes, and changes a second for these."""

LIVE = 3
"""Readers of all live changes while the server is killed."""


def run(options: BenchmarkOptions) -> Iterator[Figure]:
    """The figures of all cases, or of those that ``queries`` names."""
    cases = {"post": posts, "sse1000": live, "pgwire": point_reads, "kill": killed}
    for number, (name, case) in enumerate(cases.items()):
        if not options.queries or name in options.queries:
            options.progress(number / len(cases), name)
            with TemporaryDirectory(dir=_folder(options)) as folder:
                yield from case(options, Path(folder) / "shop")


def _folder(options: BenchmarkOptions) -> Path:
    options.folder.mkdir(exist_ok=True)
    return options.folder


def row(number: int) -> bytes:
    """The body of a post."""
    sent = time.monotonic_ns()
    return b'{"id": %d, "customer": "c%d", "amount": 1.5, "sent": %d}' % (number, number % SUBSCRIBERS, sent)


def posts(options: BenchmarkOptions, folder: Path) -> Iterator[Figure]:
    """One row in each post, by clients that wait for their answers."""
    seconds = options.seconds or (5.0 if options.quick else 20.0)
    with served(folder) as server:
        post_rows(server.port, CLIENTS, seconds / 5, row)  # warm
        load = post_rows(server.port, CLIENTS, seconds, row, first=10_000_000)
        keyed = post_rows(server.port, CLIENTS, seconds / 2, row, first=20_000_000, key="k")
    _require_all(folder, load)
    yield from _figures("post", load)
    yield from _figures("post/keys", keyed)


def _figures(case: str, load: Load) -> Iterator[Figure]:
    yield Figure("serve", case, "rows/s", load.rate, "rows/s", "goal 5,000")
    yield Figure("serve", case, "p99_ms", load.percentile(0.99), "ms", "goal 50")


def _require_all(folder: Path, load: Load) -> set[int]:
    """The rows that are there, among which each acknowledged one must be, and once: it has a key."""
    with tidemill.open(folder, runtime="native") as wh:
        there = {number for (number,) in wh.sql("SELECT id FROM orders")}
        total = sum(count for *_, count in wh.view("spend").rows())
    if lost := load.acknowledged.keys() - there:
        raise AssertionError(f"{len(lost)} acknowledged rows are not there")
    if total != len(there):
        raise AssertionError(f"the view counts {total} rows of {len(there)}")
    return there


def live(options: BenchmarkOptions, folder: Path) -> Iterator[Figure]:
    """A thousand readers with filters, while rows come."""
    seconds = options.seconds or (5.0 if options.quick else 20.0)
    with served(folder) as server:
        readers = Subscribers(server.port, SUBSCRIBERS)
        readers.wait_until_joined()
        context = multiprocessing.get_context("fork")
        answers, sending = context.Pipe(duplex=False)
        sender = context.Process(target=_send, args=(server.port, seconds, sending))
        sender.start()
        readers.listen(time.monotonic() + seconds + 3.0)
        acknowledged: set[int] = answers.recv()
        sender.join()
        readers.close()
    heard = readers.heard
    lost = len(acknowledged - heard.numbers.keys()) + sum(count > 1 for count in heard.numbers.values())
    load = Load(heard.latencies, seconds=seconds)
    yield Figure("serve", "sse1000", "lost", lost, "events", "goal 0")
    yield Figure("serve", "sse1000", "p99_ms", load.percentile(0.99), "ms", "goal 200")
    yield Figure("serve", "sse1000", "rows/s", load.rate, "rows/s", f"of {CHANGES:,.0f} sent")


def _send(port: int, seconds: float, answers: multiprocessing.connection.Connection) -> None:
    load = post_rows(port, 16, seconds, row, rate=CHANGES)
    answers.send(set(load.acknowledged))


def point_reads(options: BenchmarkOptions, folder: Path) -> Iterator[Figure]:
    """Rows by key over PostgreSQL's protocol, and the same from a PostgreSQL with a plain materialized view."""
    seconds = options.seconds or (3.0 if options.quick else 10.0)
    baseline = pgwire.of_postgres(8, seconds)
    found = pgwire.ours(8, seconds)
    beside = "no PostgreSQL here" if baseline is None else f"PostgreSQL {baseline['reads/s']:,.0f}"
    yield Figure("serve", "pgwire", "reads/s", found["reads/s"], "reads/s", f"goal 5,000; {beside}")
    beside = "" if baseline is None else f"; PostgreSQL {baseline['p99_ms']:.1f}"
    yield Figure("serve", "pgwire", "p99_ms", found["p99_ms"], "ms", f"goal 10{beside}")


def killed(options: BenchmarkOptions, folder: Path) -> Iterator[Figure]:
    """Kill the server under load some times; clients and readers come again with their keys and positions."""
    turns = 2 if options.quick else 10
    acknowledged = survive(folder, turns, 2.0)
    yield Figure("serve", "kill", "lost", 0, "rows", f"{turns} kills, {len(acknowledged):,} rows, goal 0")


def survive(folder: Path, turns: int, seconds: float, clients: int = CLIENTS) -> dict[int, int]:
    """Kill a server under load so many times: the rows that were acknowledged, with their epochs.

    Each acknowledged row is there once and never has another epoch; readers of live changes hear each once, and no
    count that is read falls.
    """
    created(folder)
    acknowledged: dict[int, int] = {}
    unanswered: set[int] = set()
    readers: Readers | None = None
    for turn in range(turns + 1):
        server = started(folder)
        readers = readers or Readers(server, LIVE)
        readers.follow(server)
        if turn < turns:
            Timer(seconds, server.process.send_signal, (signal.SIGKILL,)).start()
        first = max({*acknowledged, *unanswered}, default=-1) + 1
        limit = seconds + 60 if turn < turns else seconds
        load = post_rows(server.port, clients, limit, row_again, first=first, again=sorted(unanswered), key="k")
        if load.refused:
            raise AssertionError(f"{load.refused} rows that were sent again were refused")
        for number, epoch in load.acknowledged.items():
            if acknowledged.setdefault(number, epoch) != epoch:
                raise AssertionError(f"row {number} was acknowledged as epochs {acknowledged[number]} and {epoch}")
        unanswered = (unanswered | load.sent) - load.acknowledged.keys()
        if turn < turns:
            server.process.wait(60)
    assert readers is not None
    readers.wait_until_heard(acknowledged.keys() | set(), 60.0)
    readers.stop()
    server.stop()
    _require_all(folder, Load(acknowledged=acknowledged))
    return acknowledged


def row_again(number: int) -> bytes:
    """The same body whenever a number is sent, as a client keeps it until it is answered."""
    return b'{"id": %d, "customer": "c%d", "amount": 1.5, "sent": 0}' % (number, number % SUBSCRIBERS)
