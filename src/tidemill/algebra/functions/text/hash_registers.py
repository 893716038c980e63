"""The register of HyperLogLog that a hash belongs to, and what it says there."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.algebra.functions.function import Function, takes
from tidemill.model.types import BIGINT, INT, Type

RANK_BITS = 6
"""The bits that hold the rank of a hash: one more than the zeros with which the rest of it begins."""

HASH_BITS = 64


def hash_register(hashed: int, bits: int) -> int:
    """The register that the first ``bits`` of a hash choose, and the rank of the others, in one number.

    >>> divmod(hash_register(-1, 9), 1 << RANK_BITS), divmod(hash_register(0, 9), 1 << RANK_BITS)
    ((511, 1), (0, 56))
    """
    word = hashed % (1 << HASH_BITS)
    rest = (word << bits) % (1 << HASH_BITS) | 1 << bits - 1
    return (word >> HASH_BITS - bits) << RANK_BITS | HASH_BITS - rest.bit_length() + 1


def _spelled(arguments: Sequence[str], types: Sequence[Type], of: Type) -> str:
    hashed, bits = arguments
    register = f"CAST(shiftrightunsigned({hashed}, {HASH_BITS} - {bits}) AS INT)"
    rest = f"shiftleft({hashed}, {bits}) | shiftleft(1L, {bits} - 1)"
    return f"({register} * {1 << RANK_BITS} + {HASH_BITS + 1} - length(bin({rest})))"


HASH_REGISTERS = (
    Function("hash_register", takes(BIGINT, INT, gives=INT), hash_register, "", spelling=_spelled, total=True),
)
