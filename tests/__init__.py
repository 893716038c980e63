"""Tests: golden conversations, the corpus, one property, and tests of each package in a folder of its name."""
