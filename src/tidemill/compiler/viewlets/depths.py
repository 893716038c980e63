"""Depths: how many levels of deltas are materialized."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Depth:
    """Options of the transform.

    ``base``: maps hold base relations, row by row. ``whole``: the rest of a product is one map, connected or not.
    ``ranges``: comparisons become ranges of ordered maps, and turning points. ``weighs``: a join is materialized only
    where that is cheaper than to loop over it. ``recomputes``: the view is recomputed on every change.
    """

    base: bool = False
    whole: bool = False
    ranges: bool = False
    weighs: bool = False
    recomputes: bool = False


DEPTHS = {
    "0": Depth(base=True, recomputes=True),
    "1": Depth(base=True),
    "naive": Depth(whole=True),
    "full": Depth(ranges=True, weighs=True),
}
"""The depths by name: re-evaluation, first-order deltas, the plain transform, and the transform with all options."""
