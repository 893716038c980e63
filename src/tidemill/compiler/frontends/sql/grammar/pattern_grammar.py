"""The grammar of patterns: ``PATTERN (a, b+)`` after an item of FROM, and ``MATCH_RECOGNIZE (...)``.

Both become a ``MatchRecognize`` node, attached to the item as ``match``. The pattern itself is parsed here to the
algebra's form and kept in ``pattern_options_of``; expressions are left to the parser.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

from tidemill.algebra.relational.match import AfterMatch, Contiguity, RowsPerMatch, Skip
from tidemill.algebra.relational.row_patterns import (
    Alternation,
    Anchor,
    Concatenation,
    Exclusion,
    PatternVariable,
    Repetition,
    RowPattern,
)

CLAUSES = ("PATTERN", "MATCH_RECOGNIZE")

PATTERN_OPTIONS = "pattern_options"

QUANTIFIERS = {
    TokenType.PLUS: (1, None, False),
    TokenType.STAR: (0, None, False),
    TokenType.PLACEHOLDER: (0, 1, False),
    TokenType.DQMARK: (0, 1, True),
}
"""The least and the greatest number of repetitions for a sign, and whether it is reluctant."""

MAX_PERMUTED = 6
"""Maximum number of patterns in PERMUTE, which is a choice of n! series."""


ANCHORS = {TokenType.CARET: Anchor(False), TokenType.PARAMETER: Anchor(True)}


@dataclass(frozen=True)
class OutputRows:
    """The rows of a match that are output; with ``ALL`` perhaps without empty matches, or with unmatched rows."""

    rows: RowsPerMatch
    omits_empty: bool = False
    unmatched: bool = False


@dataclass(frozen=True)
class PatternOptions:
    """The options of a clause beside its expressions. ``strict`` is for contiguity in the whole stream.

    ``within`` is the time that a match takes at most.
    """

    pattern: RowPattern
    output: OutputRows
    skip: Skip
    within: exp.Expr | None = None
    skips: Contiguity = Contiguity.NONE
    strict: bool = False
    subsets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def attach_to(self, clause: exp.MatchRecognize) -> exp.MatchRecognize:
        """``clause`` with these options attached."""
        clause.set("pattern", exp.var(str(self.pattern)))
        clause.meta[PATTERN_OPTIONS] = self
        return clause


def pattern_options_of(clause: exp.MatchRecognize) -> PatternOptions:
    """The options of a clause beside its expressions."""
    options = clause.meta[PATTERN_OPTIONS]
    assert isinstance(options, PatternOptions)
    return options


class PatternGrammar(SparkParser):
    """Spark's parser, with patterns."""

    def _parse_table(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        table = super()._parse_table(*args, **kwargs)
        if isinstance(table, exp.Table | exp.Subquery | exp.Values) and self._is_clause():
            read = self._pattern_clause if self._curr.text.upper() == "PATTERN" else self._match_recognize
            start = self._curr.start
            self._advance()
            clause = read()
            clause.meta.update(start=start, end=self._prev.end)
            table.set("match", clause)
        return table

    def _parse_table_alias(self, alias_tokens: Any = None) -> exp.TableAlias | None:
        return None if self._is_clause() else super()._parse_table_alias(alias_tokens)

    def _is_clause(self) -> bool:
        """True if a pattern comes next, and not an alias of that name."""
        if not self._curr or self._curr.text.upper() not in CLAUSES:
            return False
        return bool(self._next) and self._next.token_type == TokenType.L_PAREN

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        """As in sqlglot; and ``d[..i-1]`` is a slice without a beginning."""
        ahead = [token.token_type for token in self._tokens[self._index : self._index + 3]]
        if this is None or ahead != [TokenType.L_BRACKET, TokenType.DOT, TokenType.DOT]:
            return super()._parse_bracket(this)
        self._advance(3)
        last = exp.Slice(expression=self._parse_disjunction())
        if not self._match(TokenType.R_BRACKET):
            self.raise_error("] was expected here")
        return self._parse_bracket(exp.Bracket(this=this, expressions=[last]))

    # ------------------------------------------------------------------------------------------------------- clauses

    def _pattern_clause(self) -> exp.MatchRecognize:
        """``PATTERN (a, b+) [ORDER BY ...] [STRICT | SKIP TILL NEXT MATCH | ...] [AFTER MATCH SKIP ...]``."""
        pattern, within = self._parenthesized(), self._within()
        order = self._parse_order()
        strict, skips = False, Contiguity.NONE
        if self._match_text_seq("SKIP", "TILL", "NEXT", "MATCH"):
            skips = Contiguity.NEXT
        elif self._match_text_seq("SKIP", "TILL", "ANY", "MATCH"):
            skips = Contiguity.ANY
        elif self._match_text_seq("STRICT"):
            strict = True
        else:
            self._match_text_seq("BY", "KEY")
        each = OutputRows(RowsPerMatch.EACH)
        options = PatternOptions(pattern, each, self._skip(), within, skips, strict)
        return options.attach_to(exp.MatchRecognize(order=order))

    def _match_recognize(self) -> exp.MatchRecognize:
        """``MATCH_RECOGNIZE (PARTITION BY ... ORDER BY ... MEASURES ... PATTERN (...) DEFINE ...) alias``."""
        self._match_l_paren()
        partition, order = self._parse_partition_by(), self._parse_order()
        measures = self._parse_csv(self._parse_match_recognize_measure) if self._match_text_seq("MEASURES") else []
        output = self._output()
        skip = self._skip()
        if not self._match_text_seq("PATTERN"):
            self.raise_error("PATTERN was expected here")
        pattern, within = self._parenthesized(), self._within()
        subsets = self._parse_csv(self._subset) if self._match_text_seq("SUBSET") else []
        define = self._parse_csv(self._parse_name_as_expression) if self._match_text_seq("DEFINE") else []
        self._match_r_paren()
        alias = self._parse_table_alias()
        clause = exp.MatchRecognize(partition_by=partition, order=order, measures=measures, define=define, alias=alias)
        return PatternOptions(pattern, output, skip, within, subsets=dict(subsets)).attach_to(clause)

    def _output(self) -> OutputRows:
        if not self._match_text_seq("ALL", "ROWS", "PER", "MATCH"):
            self._match_text_seq("ONE", "ROW", "PER", "MATCH")
            return OutputRows(RowsPerMatch.ONE)
        if self._match_text_seq("OMIT", "EMPTY", "MATCHES"):
            return OutputRows(RowsPerMatch.ALL, omits_empty=True)
        if self._match_text_seq("WITH", "UNMATCHED", "ROWS"):
            return OutputRows(RowsPerMatch.ALL, unmatched=True)
        self._match_text_seq("SHOW", "EMPTY", "MATCHES")
        return OutputRows(RowsPerMatch.ALL)

    def _within(self) -> exp.Expr | None:
        """``WITHIN INTERVAL 1 HOUR``."""
        return self._parse_bitwise() if self._match_text_seq("WITHIN") else None

    def _skip(self) -> Skip:
        if not self._match_text_seq("AFTER", "MATCH", "SKIP"):
            return Skip()
        if self._match_text_seq("PAST", "LAST", "ROW"):
            return Skip()
        if self._match_text_seq("TO", "NEXT", "ROW"):
            return Skip(AfterMatch.NEXT)
        after = AfterMatch.FIRST if self._match_text_seq("TO", "FIRST") else AfterMatch.LAST
        if after is AfterMatch.LAST and not (self._match_text_seq("TO", "LAST") or self._match_text_seq("TO")):
            self.raise_error("PAST LAST ROW, TO NEXT ROW, TO FIRST or TO LAST was expected here")
        return Skip(after, (self._variable(),))

    def _subset(self) -> tuple[str, tuple[str, ...]]:
        name = self._variable()
        if not self._match(TokenType.EQ):
            self.raise_error("= was expected here")
        self._match_l_paren()
        variables = tuple(self._parse_csv(self._variable))
        self._match_r_paren()
        return name, variables

    # ------------------------------------------------------------------------------------------------------ patterns

    def _parenthesized(self) -> RowPattern:
        if not self._match(TokenType.L_PAREN):
            self.raise_error("( was expected here")
        pattern = self._choice()
        if not self._match(TokenType.R_PAREN):
            self.raise_error("a variable, a sign of repetition or ) was expected here")
        return pattern

    def _choice(self) -> RowPattern:
        options = [self._series()]
        while self._match(TokenType.PIPE):
            options.append(self._series())
        return options[0] if len(options) == 1 else Alternation(tuple(options))

    def _series(self) -> RowPattern:
        """Patterns one after the other, with commas between them or without."""
        items = [self._repeated()]
        while self._match(TokenType.COMMA) or self._begins():
            items.append(self._repeated())
        return items[0] if len(items) == 1 else Concatenation(tuple(items))

    def _begins(self) -> bool:
        """True if one more pattern comes next."""
        if not self._curr:
            return False
        kinds = (TokenType.L_PAREN, *ANCHORS)
        return self._curr.token_type in kinds or self._curr.text.isidentifier() or self._excludes()

    def _excludes(self) -> bool:
        """True if ``{-`` comes next."""
        here = self._curr and self._curr.token_type == TokenType.L_BRACE
        return bool(here and self._next and self._next.token_type == TokenType.DASH)

    def _repeated(self) -> RowPattern:
        pattern = self._single()
        while self._curr and self._curr.token_type in (*QUANTIFIERS, TokenType.L_BRACE) and not self._excludes():
            if isinstance(pattern, Anchor):
                self.raise_error(f"{pattern} is a place and cannot be repeated")
            kind = self._curr.token_type
            self._advance()
            least, most, reluctant = self._counts() if kind == TokenType.L_BRACE else QUANTIFIERS[kind]
            pattern = Repetition(pattern, least, most, reluctant or bool(self._match(TokenType.PLACEHOLDER)))
        return pattern

    def _counts(self) -> tuple[int, int | None, bool]:
        """``{n}``, ``{n,}``, ``{n,m}`` or ``{,m}``, after the brace."""
        least = self._number()
        most = least
        if self._match(TokenType.COMMA):
            most = self._number()
        if not self._match(TokenType.R_BRACE) or (least is None and most is None):
            self.raise_error("a number of times was expected here, as in {2}, {2,} or {2,5}")
        if most is not None and most < max(least or 0, 1):
            self.raise_error("the least number of times comes first, and the most is one at least")
        return least or 0, most, False

    def _number(self) -> int | None:
        if not self._match(TokenType.NUMBER) or not self._prev.text.isdigit():
            return None
        return int(self._prev.text)

    def _single(self) -> RowPattern:
        if self._curr and self._curr.token_type == TokenType.L_PAREN:
            return self._parenthesized()
        if self._curr and self._curr.token_type in ANCHORS:
            self._advance()
            return ANCHORS[self._prev.token_type]
        if self._excludes():
            return self._excluded()
        if self._curr and self._curr.text.upper() == "PERMUTE" and self._next.token_type == TokenType.L_PAREN:
            return self._permuted()
        return PatternVariable(self._variable())

    def _excluded(self) -> RowPattern:
        """``{- a b -}``: rows that are not output."""
        self._advance(2)
        pattern = self._choice()
        if not (self._match(TokenType.DASH) and self._match(TokenType.R_BRACE)):
            self.raise_error("-} was expected here")
        return Exclusion(pattern)

    def _permuted(self) -> RowPattern:
        """``PERMUTE (a, b)``: the series in each order, that in which they are written first."""
        self._advance(2)
        items = self._parse_csv(self._repeated)
        self._match_r_paren()
        if len(items) > MAX_PERMUTED:
            self.raise_error(f"PERMUTE takes {MAX_PERMUTED} patterns at most")
        return Alternation(tuple(map(Concatenation, permutations(items))))

    def _variable(self) -> str:
        if not self._curr or not self._curr.text.isidentifier():
            self.raise_error("the name of a variable was expected here")
        self._advance()
        return str(self._prev.text.lower())
