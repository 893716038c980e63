"""The compiler, as the list of its passes."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.algebra.relations import Relation
from tidemill.compiler.choose import STRATEGIES, choose
from tidemill.compiler.rewrites.normalize import normalize
from tidemill.compiler.stages import Draft, draft_stages
from tidemill.model.schema import Table
from tidemill.program.statements import Program
from tidemill.program.verify import verify


def compile_view(name: str, relation: Relation, tables: Mapping[str, Table], strategy: str = "auto") -> Program:
    """The program that keeps ``relation`` fresh as view ``name``.

    ``tables`` are the base relations by name: their keys make lookups cheap, and those that are not kept (streams) are
    held by the program as far as it needs them. A relation that is not among them is a view, whose rows are kept.

    >>> from tidemill.algebra.relations import Scan
    >>> from tidemill.model.types import INT, Field
    >>> from tidemill.program.text import text_of_program
    >>> numbers = Table("numbers", (Field("n", INT),))
    >>> print(text_of_program(compile_view("copy", Scan("numbers", "x", numbers.fields), {"numbers": numbers})))
    stage copy(x.n: INT)
      on change of numbers:
        copy[x.n] += 1
          for x in change of numbers
      to load:
        copy[x.n] += 1
          for x in numbers
    """
    relation = normalize(relation)
    drafts = draft_stages(name, relation)
    keys = known_keys(tables, drafts)
    streams = {table.name for table in tables.values() if not table.kept}
    chosen = [STRATEGIES[choose(name, draft, strategy, streams)] for draft in drafts]
    program = Program(name, tuple(make(draft, keys, streams) for make, draft in zip(chosen, drafts, strict=True)))
    verify(program, tables)
    return program


def known_keys(tables: Mapping[str, Table], drafts: list[Draft]) -> dict[str, frozenset[str]]:
    """The key columns of each table and stage that has a key; a global aggregate has one row, so its key is empty."""
    keys = {table.name: frozenset(table.primary_key) for table in tables.values() if table.primary_key}
    return keys | {draft.name: draft.key for draft in drafts if draft.key is not None}
