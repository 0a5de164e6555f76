"""Writes, rotates, reads and redacts traces and recordings. Knows the normalizers, and no other folder of `traces`."""
