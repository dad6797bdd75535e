"""The parts of a benchmark: one file is one part; `measure(bench)` gives its numbers."""
