"""The journal in one SQLite file, for one daemon. Depends on the journal's interface and projection."""
