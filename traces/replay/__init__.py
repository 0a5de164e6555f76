"""Runs traces through the current normalizers and compares the events with a journal's. Knows `recording`."""
