"""Benchmarks: each package has ``run(options) -> Iterator[Figure]`` and says what it compares with."""
