"""Time grows with the length of what is read, and no faster.

`make lab-linear` measures time, of everything; `SAMPLE=1`, as `.ci/run` has it, of a sample. `make test` counts
steps, which cannot see what takes long within one call of C: regular expressions are in the laboratory alone.
"""
