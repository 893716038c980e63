"""Wires everything below it: what users hold, and what happens when they use it."""
