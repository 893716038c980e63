"""Algebra to program. Strangers to each other."""
