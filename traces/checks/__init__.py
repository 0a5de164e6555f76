"""Checks that `make` runs over recordings, and the coverage page. Knows the normalizers only."""
