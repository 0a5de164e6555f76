"""Measures the cost of normalizing lines: recordings and generated lines."""
