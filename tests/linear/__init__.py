"""Tests that processing time is linear in the length of the input.

`make lab-linear` measures time, for everything; `SAMPLE=1`, as `.ci/run` has it, for a sample. `make test` counts
steps, which cannot show time spent within one call of C code: regular expressions are tested in the laboratory alone.
"""
