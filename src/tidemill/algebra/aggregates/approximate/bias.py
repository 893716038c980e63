"""The corrections of HyperLogLog++ for 4 to 18 bits: measured estimates, their biases, and where counting zeros ends.

The measurements are those that the authors published with "HyperLogLog in Practice" (Heule, Nunkesser, Hall; 2013), and
every implementation reads the same ones. ``bias.txt`` has three lines for each number of bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

LEAST_BITS = 4
MOST_BITS = 18


@dataclass(frozen=True, slots=True)
class Corrections:
    """Below ``threshold`` the empty registers tell the count; ``biases`` are those of the raw ``estimates``."""

    threshold: float
    estimates: tuple[float, ...]
    biases: tuple[float, ...]


@cache
def corrections(bits: int) -> Corrections:
    """The corrections for a number of bits.

    >>> corrections(9).threshold, corrections(9).estimates[0], len(corrections(9).biases)
    (400.0, 369.0, 201)
    """
    lines = files(__package__).joinpath("bias.txt").read_text().splitlines()
    first = 3 * (bits - LEAST_BITS)
    threshold, estimates, biases = (tuple(map(float, line.split())) for line in lines[first : first + 3])
    return Corrections(threshold[0], estimates, biases)
