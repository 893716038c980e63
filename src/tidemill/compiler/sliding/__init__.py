"""Sliding windows: one meaning, several ways to make each partition from others."""
