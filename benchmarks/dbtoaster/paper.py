"""What the DBToaster paper measured (Figure 7) and where it shows each query over its stream (Figures 8 to 10)."""

from __future__ import annotations

DBTOASTER = {
    "q3": 22_049.06,
    "q11": 41_842.62,
    "q17": 21_256.16,
    "q18": 24_056.02,
    "q22": 8_761.95,
    "ssb4": 2_970.64,
    "axf": 22_126.26,
    "bsp": 21_114.23,
    "bsv": 103_290.67,
    "mst": 19.90,
    "psp": 18_895.52,
    "vwap": 3_259.47,
}
"""Refreshes a second of the optimized program, on one core of a Xeon E5620 at 2.4 GHz."""

DEPTH_0 = {
    "q3": 15.00,
    "q11": 20.67,
    "q17": 17.15,
    "q18": 17.93,
    "q22": 2.22,
    "ssb4": 16.49,
    "axf": 6.57,
    "bsp": 5.19,
    "bsv": 2.18,
    "mst": 6.54,
    "psp": 6.68,
    "vwap": 7.40,
}
"""Refreshes a second where every event evaluates the whole query."""

FIGURES = {
    "figure8": ("q3", "q11", "q17", "q18"),
    "figure9": ("q22", "ssb4", "vwap", "bsv"),
    "figure10": ("psp", "mst", "axf", "bsp"),
}
"""The traces over the stream, as the paper arranges them."""

TPCH = ("q3", "q11", "q17", "q18", "q22", "ssb4")
"""The queries that Figure 11 runs over growing data."""


def baseline(query: str, depth: str) -> str:
    """What a figure of ours is held against.

    >>> baseline("q3", "full")
    'paper 22,049'
    >>> baseline("q3", "0"), baseline("q3", "1")
    ('paper 15 at depth 0', 'paper 22,049 at depth full')
    """
    if depth == "0":
        return f"paper {DEPTH_0[query]:,.3g} at depth 0"
    value = DBTOASTER[query]
    return f"paper {value:,.{0 if value >= 100 else 1}f}{'' if depth == 'full' else ' at depth full'}"
