"""Thousand events a second a core: what Tidemill is to reach, and what others have published for their queries.

Flink's figures are those of https://github.com/nexmark/nexmark with Flink 1.13; DBSP's are of its Rust programs on
eight cores, 2022. Their hardware is another, and their queries differ from ours in constants and in what is emitted.
"""

from __future__ import annotations

GOALS = {
    "q0": 2_000,
    "q3": 1_500,
    "q4": 1_000,
    "q5": 1_000,
    "q7": 1_000,
    "q8": 1_000,
    "q9": 500,
    "q11": 500,
    "q16": 500,
    "q17": 500,
    "q18": 500,
    "q20": 1_000,
}
"""At 10,000 events an epoch, over tables."""

FLINK = {
    "q0": 155,
    "q3": 152,
    "q4": 34,
    "q5": 22,
    "q7": 12,
    "q8": 146,
    "q9": 14,
    "q16": 19,
    "q17": 117,
    "q18": 54,
    "q20": 19,
}
DBSP = {"q0": 863, "q3": 804, "q4": 738, "q5": 868, "q7": 603}


def baseline(query: str) -> str:
    """What a query is held against.

    >>> baseline("q4"), baseline("q1")
    ('goal 1,000 K; Flink 34 K, DBSP 738 K', '')
    """
    others = [f"{name} {rates[query]} K" for name, rates in (("Flink", FLINK), ("DBSP", DBSP)) if query in rates]
    parts = ([f"goal {GOALS[query]:,} K"] if query in GOALS else []) + ([", ".join(others)] if others else [])
    return "; ".join(parts)
