"""Patterns over rows in order: what they are (``patterns``), how they are recognized (``machine``, ``runs``,
``search``), what is read of the rows that match (``looks``), and the relation that all this makes (``match``)."""
