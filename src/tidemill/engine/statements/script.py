"""A text of statements, run with its parameters; a transaction that fails in it leaves nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from tidemill.compiler.frontends.translate import parse
from tidemill.engine.engine import Engine
from tidemill.engine.quarantine.notes import noted
from tidemill.engine.results import Result
from tidemill.engine.statements.execute import execute
from tidemill.engine.statements.prepared_statements.parameters import Parameters, markers_of_script, require_given
from tidemill.engine.statements.prepared_statements.prepared import PreparedStatements

__all__ = ["run_script"]


def run_script(
    engine: Engine,
    prepared: PreparedStatements,
    text: str,
    given: Parameters,
    *,
    name: str = "sql",
    each: Callable[[Result], None] | None = None,
    at_once: bool = False,
) -> Result:
    """Run the statements of a text; returns the result of the last one, after ``each`` was called with all of them.

    One statement that comes again is kept ready, and ``at_once`` even before that.
    """
    result = Result()
    with _failing_together(engine):
        with engine.follower.standing():
            run = prepared.find(engine, text, given, at_once=at_once)
            if run is not None:
                if engine.transactions.by_owner and (pending := engine.transactions.mine()) is not None:
                    pending.require_sound()
                result = noted(partial(run, engine, given))
        if run is not None:
            if each is not None:
                each(result)
            return result
        statements = parse(text, name=name)
        require_given(markers_of_script(statements), given)
        with engine.given(given):
            for statement in statements:
                with engine.follower.standing():
                    result = noted(partial(execute, engine, statement))
                if each is not None:
                    each(result)
    return result


@contextmanager
def _failing_together(engine: Engine) -> Iterator[None]:
    """After an error a transaction that began in this text is rolled back, and an older one waits for its ROLLBACK."""
    before = engine.transactions.mine() if engine.transactions.by_owner else None
    try:
        yield
    except BaseException:
        pending = engine.transactions.mine() if engine.transactions.by_owner else None
        if pending is not None and pending is before:
            pending.failed = True
        elif pending is not None:
            engine.transactions.end()
        raise
