"""Exports sessions as files: sources of events, redaction, and one module for each format."""
