"""The parts of the benchmark: each module has `run(setup) -> Iterator[Row]`."""
