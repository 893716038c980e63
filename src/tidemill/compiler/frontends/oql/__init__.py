"""OQL to algebra: ``read`` takes a text of definitions and queries over the classes of a schema.

A text becomes syntax (``grammar``), syntax a comprehension of the monoid calculus (``meaning``), which is brought into
normal form (``normalize``), unnested into operators of the monoid algebra (``unnesting``), and lowered to the algebra
that SQL becomes, too (``lowering``).
"""

from tidemill.compiler.frontends.oql.reading import Ask, Define, read

__all__ = ["Ask", "Define", "read"]
