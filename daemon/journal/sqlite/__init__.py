"""The journal on one SQLite file, for one daemon. Knows the journal's interface and projection."""
