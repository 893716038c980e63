"""Epochs on disk or in memory: one commit for all maps at once."""
