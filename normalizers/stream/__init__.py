"""Normalization of one stream from its first line to its end, and further processing of its events. Dialects are known
by name only."""
