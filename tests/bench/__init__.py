"""Benchmarks: `make bench`. Each `row_*.py` measures one promise and states its target."""
