"""Viewlets: the deltas of deltas, materialized until each trigger is a sum."""
