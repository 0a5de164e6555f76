"""Tests of file changes derived from calls: cumulative diffs are compared with those of git."""
