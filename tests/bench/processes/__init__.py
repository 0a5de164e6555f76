"""Processes for the rows: loads for a daemon, readers, and servers as references."""
