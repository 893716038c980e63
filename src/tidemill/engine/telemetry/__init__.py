"""Telemetry: what epochs and views cost, kept in the refresh log, and told to logging and OpenTelemetry.

- ``epoch_work``: the numbers of one epoch, set where its work is done
- ``recorder``: sums small refreshes and writes the refresh log
- ``events``: events for Python's logging; ``spans``: spans of OpenTelemetry
- ``refresh``: an entry of the log; ``view_costs``: entries summed by view
- ``totals``: sums since the warehouse was opened; ``latencies``: durations by range
"""
