"""Algebra to algebra, one function a file."""
