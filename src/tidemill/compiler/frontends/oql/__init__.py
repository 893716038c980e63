"""OQL to algebra: ``translate_oql`` takes a text of definitions and queries over the classes of a schema.

- ``statements``: ``translate_oql``, the steps below one after the other
- ``syntax``: the text as a syntax tree
- ``calculus``: comprehensions of the monoid calculus, brought into normal form
- ``algebra``: operators of the monoid algebra, by unnesting; the events that can change a view
- ``lowering``: these operators as the algebra that SQL becomes, too
"""

from tidemill.compiler.frontends.oql.statements import OqlAnswer, OqlView, translate_oql

__all__ = ["OqlAnswer", "OqlView", "translate_oql"]
