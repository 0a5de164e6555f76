"""Raw lines on disk, and what can be done with them without a daemon."""
