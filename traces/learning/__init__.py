"""Starts dialects: templates of their packages. Knows `recording`."""
