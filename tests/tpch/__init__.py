"""The 22 queries of TPC-H, and a few dozen rows for which each of them has an answer."""
