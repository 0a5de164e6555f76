"""Makes files of sessions: sources of events, redaction, and one module for each format."""
