"""Fuzzing with damaged recordings: `make lab-fuzz`. A case follows from the seed and its number alone."""
