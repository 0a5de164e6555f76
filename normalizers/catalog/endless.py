"""What the endless streams of dialects share."""

__all__ = ["TEXT"]

TEXT = "x" * 200
"""Enough for a stored copy to show in the size of a dump."""
