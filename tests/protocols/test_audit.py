"""The checker says which levels hold, and what breaks the others."""

from __future__ import annotations

from itertools import product

import pytest

from tidemill.changes.zset import ZSet
from tidemill.protocols.audit import audit
from tidemill.protocols.protocol import Level

CONVERGENT, WEAK, CONSISTENT, STRONG, COMPLETE = (level for level in Level if level is not Level.NONE)


def states(letters: str) -> list[ZSet]:
    """A state for each letter; a dot is the empty view."""
    return [ZSet() if letter == "." else ZSet({(letter,): 1}) for letter in letters]


@pytest.mark.parametrize(
    ("source", "warehouse", "kept"),
    [
        ("a", "a", {CONVERGENT, WEAK, CONSISTENT, STRONG, COMPLETE}),
        ("abc", "abc", {CONVERGENT, WEAK, CONSISTENT, STRONG, COMPLETE}),
        ("abc", "aabbbc", {CONVERGENT, WEAK, CONSISTENT, STRONG, COMPLETE}),
        ("aabbc", "abc", {CONVERGENT, WEAK, CONSISTENT, STRONG, COMPLETE}),
        ("abc", "ac", {CONVERGENT, WEAK, CONSISTENT, STRONG}),
        ("abc", "ab", {WEAK, CONSISTENT}),
        ("abc", "acbc", {CONVERGENT, WEAK}),
        ("abc", "axc", {CONVERGENT}),
        ("abc", "axb", set()),
        ("abc", "acb", {WEAK}),
        ("abab", "ab", {CONVERGENT, WEAK, CONSISTENT, STRONG}),
        ("aba", "bab", {WEAK}),
        ("a.a", "aa", {CONVERGENT, WEAK, CONSISTENT, STRONG}),
    ],
)
def test_levels(source: str, warehouse: str, kept: set[Level]) -> None:
    verdict = audit(states(source), states(warehouse))
    assert verdict.kept == kept
    assert verdict.level == max(kept, default=Level.NONE)


def test_weights_count() -> None:
    twice = ZSet({("a",): 2})
    assert audit([twice], [ZSet({("a",): 1})]).kept == frozenset()
    assert "[a]" in audit([twice], [ZSet({("a",): 1})]).broken[WEAK]


def test_the_first_violation_is_told() -> None:
    verdict = audit(states("abcd"), states("acxb"))
    assert verdict.broken[WEAK] == "state 2 of the warehouse is none of the source: [x]"
    assert verdict.broken[CONVERGENT] == "the last state of the warehouse is not the last one of the source: [b]"
    assert verdict.broken[CONSISTENT].startswith("state 2 of the warehouse is none of the source from state 2 on")


def test_greedy_finds_a_map_in_order_wherever_there_is_one() -> None:
    """Against all maps that there are, for all short histories over two letters."""
    for length, shown in product(range(1, 5), range(1, 4)):
        for source in map("".join, product("ab", repeat=length)):
            for warehouse in map("".join, product("ab", repeat=shown)):
                maps = product(range(length), repeat=shown)
                possible = any(
                    list(one) == sorted(one) and all(source[at] == warehouse[j] for j, at in enumerate(one))
                    for one in maps
                )
                assert (CONSISTENT in audit(states(source), states(warehouse)).kept) == possible


def test_long_histories_take_one_pass() -> None:
    """A quarter of a million states on each side; comparing each with each would not end."""
    source = states("abcdefgh" * 30_000)
    assert audit(source, source).level is COMPLETE
    assert audit(source, source[::8]).level is CONSISTENT
