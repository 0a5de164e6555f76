"""Recorded raw lines: trace files, masking of secrets, fixtures, replay and drift, all without a daemon."""
