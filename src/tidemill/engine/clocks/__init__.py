"""The clocks that conditions on ``now()`` read: relations of one row that go forward.

Rows advance an event clock in their own epoch: see ``epochs.clock_advance``.

- ``clocks``: ``Clocks``: begins and advances clocks, and ticks
- ``ticker``: the thread that ticks
"""
