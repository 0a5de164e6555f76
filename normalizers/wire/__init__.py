"""Bytes to lines to decoded values. Knows no events and no dialects."""
