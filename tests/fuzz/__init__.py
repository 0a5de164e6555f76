"""Damaged recordings without end: `make lab-fuzz`. What a case is follows from the seed and its number alone."""
