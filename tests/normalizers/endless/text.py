"""A text that is long enough for a stored copy to show in the size of a dump."""

TEXT = "x" * 200
