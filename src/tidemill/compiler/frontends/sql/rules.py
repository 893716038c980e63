"""The function that translates each kind of expression: one table, joined from those of all modules."""

from __future__ import annotations

from sqlglot import exp

from tidemill.algebra.relational.windows import SESSION
from tidemill.compiler.frontends.sql.expressions.array_functions import ARRAY_FUNCTIONS
from tidemill.compiler.frontends.sql.expressions.document_functions import DOCUMENT_FUNCTIONS
from tidemill.compiler.frontends.sql.expressions.function_calls import CALL_FUNCTIONS, CALL_RULES
from tidemill.compiler.frontends.sql.expressions.higher_order_functions import HIGHER_ORDER_FUNCTIONS, from_parameter
from tidemill.compiler.frontends.sql.expressions.intervals import from_interval_literal
from tidemill.compiler.frontends.sql.expressions.operators import OPERATORS
from tidemill.compiler.frontends.sql.expressions.translator import (
    ExpressionRules,
    from_boolean,
    from_bracket,
    from_column,
    from_constant,
    from_dot,
    from_marker,
    from_null,
    from_raw_string,
    from_subquery,
)
from tidemill.compiler.frontends.sql.windows.over_clause import from_window
from tidemill.compiler.frontends.sql.windows.session_windows import from_session_window
from tidemill.compiler.frontends.sql.windows.time_windows import WINDOW_COLUMN, from_time_window, from_window_time

EXPRESSION_RULES = ExpressionRules(
    nodes={
        **OPERATORS,
        **CALL_RULES,
        exp.Boolean: from_boolean,
        exp.Bracket: from_bracket,
        exp.Column: from_column,
        exp.Dot: from_dot,
        exp.Identifier: from_parameter,
        exp.Interval: from_interval_literal,
        exp.Literal: from_constant,
        exp.Null: from_null,
        exp.Placeholder: from_marker,
        exp.RawString: from_raw_string,
        exp.Subquery: from_subquery,
        exp.Window: from_window,
    },
    functions={
        **CALL_FUNCTIONS,
        **ARRAY_FUNCTIONS,
        **DOCUMENT_FUNCTIONS,
        **HIGHER_ORDER_FUNCTIONS,
        WINDOW_COLUMN: from_time_window,
        SESSION: from_session_window,
        "window_time": from_window_time,
    },
)
