"""Views that are not materialized, functions in SQL and variables: created, dropped, set and shown.

Temporary ones belong to the session, and are gone when it or the warehouse is closed; the others are stored in the
catalog.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.derived_functions import ALIASES, DERIVED_FUNCTIONS
from tidemill.algebra.expressions.scalars import Literal
from tidemill.algebra.functions.registry import FUNCTIONS, INTERNAL
from tidemill.algebra.node import Relation
from tidemill.algebra.values.casts import can_cast
from tidemill.compiler.frontends.script import statements as sql
from tidemill.compiler.frontends.sql.aggregation.aggregates import aggregate_names
from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText
from tidemill.compiler.frontends.sql.named_definitions import (
    DefinitionScope,
    SqlFunction,
    as_query,
    has_query,
    is_query,
    names_in,
    variable_name,
)
from tidemill.compiler.frontends.sql.query.time_filters import ClockReads
from tidemill.compiler.frontends.sql.rules import EXPRESSION_RULES
from tidemill.compiler.frontends.translate import translate
from tidemill.engine.catalog.entries.named_definitions import require_readable, require_unused
from tidemill.engine.catalog.views.publication import Publication
from tidemill.engine.engine import Engine
from tidemill.engine.results import Result
from tidemill.engine.statements.builds import describe_build
from tidemill.engine.statements.ddl.redefine import redefine
from tidemill.engine.statements.dml.changes import apply_rows
from tidemill.engine.statements.listings.details import details_of
from tidemill.engine.statements.listings.show import is_like
from tidemill.engine.statements.prepared_statements.parameters import refuse_markers
from tidemill.model.errors import NameTaken, TextLocation, TypeMismatch, UnknownName, Unsupported
from tidemill.model.schema import Table
from tidemill.model.types import STRING, Field, Type, Void
from tidemill.sources.lake.lake_table import version_shown


def create_named_query(engine: Engine, statement: sql.CreateNamedQuery, *, cascade: bool = False) -> Result:
    """Add a view that is not materialized, once its query was checked; those that use it follow."""
    with _definitions_kept(engine, statement.temporary):
        return _create_named_query(engine, statement, cascade)


def _definitions_kept(engine: Engine, temporary: bool) -> AbstractContextManager[None]:
    """Keep other threads from changing what is stored between a look at it and its commit; those that are temporary are
    the session's own."""
    return nullcontext() if temporary else engine.settled()


def _create_named_query(engine: Engine, statement: sql.CreateNamedQuery, cascade: bool) -> Result:
    query, catalog, session = statement.query, engine.catalog, engine.session
    refuse_markers("view", query.text)
    known = session.definitions.queries if statement.temporary else {**catalog.named.queries, **catalog.relations}
    if query.name in known and not (statement.or_replace and query.name not in catalog):
        if statement.if_not_exists:
            return Result(message=f"{query.name} exists already")
        raise NameTaken(f'"{query.name}" exists already', hint="DROP it first, or write CREATE OR REPLACE VIEW.")
    named = engine.named if statement.temporary else replace(catalog.named, registered=engine.registry.keys)
    if not statement.temporary:
        refuse_temporary(engine, query.text, f'view "{query.name}"')
    named = replace(named, queries={**named.queries, query.name: query})
    require_readable(query, engine.rights.relations, named)
    followed: list[str] = []
    if statement.temporary:
        session.set_queries({**session.definitions.queries, query.name: query})
    else:
        stored = replace(catalog.named, queries={**catalog.named.queries, query.name: query})
        followed = redefine(engine, stored, query.name, cascade=cascade)
    return Result(message="; ".join([f"created view {query.name}", *followed]))


def drop_named_query(engine: Engine, name: str) -> Result | None:
    """Remove a view that is not materialized, a temporary one before a stored one; None if there is none."""
    session, named = engine.session.definitions, engine.catalog.named
    if name in session.queries:
        engine.session.set_queries({n: q for n, q in session.queries.items() if n != name})
    elif name in named.queries:
        _drop_stored_query(engine, name)
    else:
        return None
    return Result(message=f"dropped {name}")


def _drop_stored_query(engine: Engine, name: str) -> None:
    with engine.settled():
        catalog, named = engine.catalog, engine.catalog.named
        require_unused(catalog.defined_views(), named, name, "dropped")
        left = {n: q for n, q in named.queries.items() if n != name}
        engine.definitions.define_named(replace(named, queries=left))


def refuse_temporary(engine: Engine, text: str, what: str) -> None:
    """Refuse what is stored, and would use names that are gone when the warehouse is closed."""
    session = engine.session.definitions
    if not (session.queries or session.functions):
        return
    used = names_in(text)
    for kind, verb, names in (
        ("view", "read", used.tables & session.queries.keys()),
        ("function", "call", used.functions & session.functions.keys()),
    ):
        for name in sorted(names):
            raise Unsupported(
                f'{what} cannot {verb} the temporary {kind} "{name}"',
                detail=f"It is stored, and the temporary {kind} is gone when the warehouse is closed.",
                hint=f"Write CREATE {kind.upper()} {name}, without TEMPORARY.",
            )


def create_table_as(engine: Engine, statement: sql.CreateTableAs) -> Result:
    """Add a table with the columns and rows of a query."""
    if statement.if_not_exists and statement.table in engine.catalog:
        return Result(message=f"{statement.table} exists already")
    made = _rows_of(engine, statement.query, statement.table)
    table = Table(statement.table, tuple(_stored(f, statement) for f in made.fields))
    rows = engine.answer(made).pairs()
    engine.definitions.create_table(table)
    try:
        return apply_rows(engine, table, rows)
    except BaseException:
        engine.definitions.drop(table.name)
        raise


def _rows_of(engine: Engine, query: ParsedText, name: str) -> Relation:
    """The rows of a query, those that its LIMIT leaves."""
    relations, functions = engine.rights.relations, engine.registry.keys
    return translate(query, relations, name, functions, named=engine.named).relation


def _stored(field: Field, statement: sql.CreateTableAs) -> Field:
    if isinstance(field.type, Void):
        raise TypeMismatch(
            f'column "{field.name}" is NULL and has no type', where=statement.place, hint="Use CAST(NULL AS type)."
        )
    return Field(field.name, field.type)


def create_function(engine: Engine, statement: sql.CreateFunction) -> Result:
    """Add a function whose body is SQL, once that was checked."""
    with _definitions_kept(engine, statement.temporary):
        return _create_function(engine, statement)


def _create_function(engine: Engine, statement: sql.CreateFunction) -> Result:
    function, catalog, session = statement.function, engine.catalog, engine.session
    refuse_markers("function", function.body)
    known = session.definitions.functions if statement.temporary else catalog.named.functions
    if function.name in engine.registry.keys:
        raise NameTaken(f'"{function.name}" is a registered function', hint="Give this one another name.")
    if function.name in known and not statement.or_replace:
        if statement.if_not_exists:
            return Result(message=f"{function.name} exists already")
        raise NameTaken(f'function "{function.name}" exists already', hint="Write CREATE OR REPLACE FUNCTION.")
    named = engine.named if statement.temporary else replace(catalog.named, registered=engine.registry.keys)
    if not statement.temporary:
        refuse_temporary(engine, function.body, f'function "{function.name}"')
    function = DefinitionScope(engine.rights.relations, replace(named, variables={})).check(function)
    followed: list[str] = []
    if statement.temporary:
        session.set_functions({**session.definitions.functions, function.name: function})
    else:
        stored = replace(catalog.named, functions={**catalog.named.functions, function.name: function})
        followed = redefine(engine, stored, function.name, "function")
    return Result(message="; ".join([f"created function {function.name}", *followed]))


def drop_function(engine: Engine, statement: sql.DropFunction) -> Result:
    """Remove a function in SQL that no materialized view calls, a temporary one before a stored one."""
    name, session, named = statement.name, engine.session.definitions, engine.catalog.named
    if name in session.functions:
        engine.session.set_functions({n: f for n, f in session.functions.items() if n != name})
    elif name in named.functions:
        _drop_stored_function(engine, name)
    elif statement.if_exists:
        return Result(message=f"there is no function {name}")
    else:
        raise UnknownName(f'there is no function "{name}" in SQL', where=statement.place, hint=_listed(engine))
    return Result(message=f"dropped function {name}")


def _drop_stored_function(engine: Engine, name: str) -> None:
    with engine.settled():
        catalog, named = engine.catalog, engine.catalog.named
        require_unused(catalog.defined_views(), named, name, "dropped", "function")
        left = {n: f for n, f in named.functions.items() if n != name}
        engine.definitions.define_named(replace(named, functions=left))


def _listed(engine: Engine) -> str:
    return f"There is: {', '.join(engine.named.functions) or 'none yet'}."


def show_functions(engine: Engine, statement: sql.ShowFunctions) -> Result:
    """List functions by name: those of SQL, those that are registered, and those defined in SQL."""
    own = {*engine.named.functions, *engine.registry.keys}
    built_in = {*FUNCTIONS, *DERIVED_FUNCTIONS, *ALIASES, *EXPRESSION_RULES.functions, *aggregate_names()} - INTERNAL
    found = {"user": own, "system": built_in, "all": own | built_in}[statement.kind]
    names = (name for name in sorted(found) if name.isidentifier() or name in own)
    rows = [(name,) for name in names if is_like(name, statement.pattern)]
    return Result(rows, (Field("function", STRING),))


def describe_function(engine: Engine, statement: sql.DescribeFunction) -> Result:
    """Describe a function: its parameters, its type and its body."""
    function = engine.named.functions.get(statement.name)
    if function is not None:
        return Result([(line,) for line in _described(function)], (Field("function_desc", STRING),))
    known = FUNCTIONS.get(statement.name)
    if known is None and statement.name not in engine.registry.keys:
        raise UnknownName(f'there is no function "{statement.name}"', where=statement.place, hint="See SHOW FUNCTIONS.")
    example = getattr(known, "example", "") or ""
    lines = [f"Function: {statement.name}", *([f"Example: {example}"] if example else [])]
    return Result([(line,) for line in lines], (Field("function_desc", STRING),))


def _described(function: SqlFunction) -> list[str]:
    parameters = ", ".join(
        f"{p.name} {p.type}" + (f" DEFAULT {p.default}" if p.default is not None else "") for p in function.parameters
    )
    columns = ", ".join(f"{f.name} {f.type}" for f in function.columns or ())
    returns = str(function.returns) if function.columns is None else f"TABLE ({columns})" if columns else "TABLE"
    return [f"Function: {function.name}", f"Input: ({parameters})", f"Returns: {returns}", f"Body: {function.body}"]


def describe_table(engine: Engine, statement: sql.DescribeTable) -> Result:
    """List the columns of a table or view, materialized or not, with their types."""
    named, limited = engine.named, not engine.rights.reads_all
    if not limited and (build := engine.catalog.builds.get(statement.name)) is not None:
        return describe_build(engine, build.view, names_only=statement.names_only)
    if statement.name in named.queries:
        query = f"SELECT * FROM `{statement.name}`"
        known, clock = engine.rights.relations, ClockReads.wall()
        fields = translate(query, known, functions=named.registered, named=named, clock=clock).relation.fields
    else:
        fields = engine.catalog.entry(engine.rights.require(statement.name)).fields
    if statement.names_only:
        return Result([(f.name,) for f in fields], (Field("col_name", STRING),))
    names = ("col_name", "data_type", "comment")
    rows: list[tuple[str, str | None, None]] = [(f.name, str(f.type).lower(), None) for f in fields]
    if limited:
        return Result(rows, tuple(Field(name, STRING) for name in names))
    if lake := engine.catalog.lakes.get(statement.name):
        version = version_shown(engine.store.positions.get(lake.position, ""))
        rows += [("# Lake table", "", None), ("Provider", lake.format, None)]
        rows += [("Location", lake.location, None), ("Version", version, None)]
    rows += [(name, text, None) for name, text in _published(engine, statement.name)]
    if statement.extended:
        rows += [(name, value, None) for name, value in details_of(engine, statement.name)]
    return Result(rows, tuple(Field(name, STRING) for name in names))


def _published(engine: Engine, name: str) -> Iterator[tuple[str, str]]:
    """Properties of the lake table that a view is published as."""
    view = engine.catalog.views.get(name)
    published = None if view is None else Publication.of(view.options)
    if published is not None:
        yield from (("# Published", ""), ("Provider", published.place.format))
        yield from (("Location", published.place.location), ("Mode", published.mode))
        if last := engine.publications.last.get(name):
            yield "Last commit", f"version {last.version}: {last}"


def show_schemas(engine: Engine, statement: sql.ShowSchemas) -> Result:
    """List schemas: a warehouse is one."""
    return Result([("default",)], (Field("namespace", STRING),))


def use_schema(engine: Engine, statement: sql.UseSchema) -> Result:
    """Use the one schema, which is in use already."""
    return Result(message="the schema is default")


# -- variables --------------------------------------------------------------------------------------------------


def declare_variable(engine: Engine, statement: sql.DeclareVariable) -> Result:
    """Add a variable with its default, NULL where it has none."""
    name, session = statement.name, engine.session.definitions
    if name in session.variables and not statement.or_replace:
        raise NameTaken(f'variable "{name}" exists already', hint="Write DECLARE OR REPLACE VARIABLE.")
    if statement.default is None:
        if statement.type is None:
            raise TypeMismatch(f'variable "{name}" needs a type or a default', where=statement.place)
        value = Literal(None, statement.type, typed=True)
    else:
        if has_query(statement.default):
            raise Unsupported("the default of a variable is no subquery", where=statement.place, hint="Use SET VAR.")
        value = _value(engine, statement.default, statement.type)
    engine.session.set_variables({**session.variables, name: value})
    engine.session.variable_defaults[name] = value
    return Result(message=f"declared variable {name}")


def set_variables(engine: Engine, statement: sql.SetVariables) -> Result:
    """Give variables other values; all are computed before any is set."""
    found: dict[str, Literal] = {}
    variables = engine.session.definitions.variables
    for names, tree in statement.assignments:
        for name in names:
            if name not in variables:
                known = ", ".join(variables) or "none yet"
                raise UnknownName(f'there is no variable "{name}"', where=statement.place, hint=f"There is: {known}.")
            if name in found:
                raise NameTaken(f'variable "{name}" is set twice', where=statement.place)
            found[name] = engine.session.variable_defaults[name]
        types = [variables[name].type for name in names]
        if tree is not None and (is_query(tree) or len(names) > 1):
            found |= zip(names, _row(engine, tree, types), strict=True)
        elif tree is not None:
            found[names[0]] = _value(engine, tree, types[0])
    engine.session.set_variables({**variables, **found})
    return Result(message=f"set {', '.join(found)}")


def _value(engine: Engine, tree: ParsedText, of: Type | None) -> Literal:
    """The value of a constant expression, which may have subqueries."""
    (value,) = _row(engine, as_query(tree), [of])
    return value


def _row(engine: Engine, tree: ParsedText, types: Sequence[Type | None]) -> list[Literal]:
    """The one row of a query as constants of ``types``; NULLs where it has none."""
    found = _rows_of(engine, tree, "variables")
    fields = found.fields
    if len(fields) != len(types):
        raise TypeMismatch(f"{len(fields)} values are given for {len(types)} variables")
    rows = list(engine.answer(found).zset().expand())
    if len(rows) > 1:
        raise TypeMismatch(f"a query for the values of variables has one row, not {len(rows)}")
    row = rows[0] if rows else (None,) * len(fields)
    return [_literal(value, field.type, of) for value, field, of in zip(row, fields, types, strict=True)]


def _literal(value: object, found: Type, wanted: Type | None) -> Literal:
    of = wanted or found
    if not can_cast(found, of):
        raise TypeMismatch(f"a variable of {of} cannot be {found}")
    converted = evaluate_scalar(convert(Literal(value, found, typed=True), of), {})
    return Literal(converted, of, typed=True)


def markers_of(engine: Engine, statement: sql.ExecuteImmediate) -> dict[str, Literal]:
    """The values of USING: ``:name`` where they have names, or are variables, and else by number."""
    values = [(name or variable_name(tree), _constant(engine, tree)) for name, tree in statement.using]
    names = [name for name, _ in values if name is not None]
    if len(set(names)) < len(names):
        raise NameTaken("two parameters have one name", where=statement.place)
    named = {f":{name}": value for name, value in values if name is not None}
    return named | {f"?{number}": value for number, (_, value) in enumerate(values, start=1)}


def _constant(engine: Engine, tree: ParsedText) -> Literal:
    if has_query(tree):
        raise Unsupported("a parameter cannot be a subquery", hint="SET VAR to its value, and use the variable.")
    return _value(engine, tree, None)


def statement_text(engine: Engine, statement: sql.ExecuteImmediate) -> str:
    """The text that EXECUTE IMMEDIATE executes."""
    text = _constant(engine, statement.text)
    if not isinstance(text.value, str):
        raise TypeMismatch("EXECUTE IMMEDIATE takes a text that is not NULL", where=statement.place)
    return text.value


def set_from_query(engine: Engine, names: Sequence[str], query: ParsedText, place: TextLocation) -> Result:
    """Set variables to the one row of a query."""
    return set_variables(engine, sql.SetVariables(place, ((tuple(names), query),)))


def drop_variable(engine: Engine, statement: sql.DropVariable) -> Result:
    """Remove a variable."""
    name, session = statement.name, engine.session.definitions
    if name not in session.variables:
        if statement.if_exists:
            return Result(message=f"there is no variable {name}")
        raise UnknownName(f'there is no variable "{name}"', where=statement.place)
    engine.session.set_variables({n: v for n, v in session.variables.items() if n != name})
    return Result(message=f"dropped variable {name}")
