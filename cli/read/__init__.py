"""Commands that show what the journal holds: tail, sessions, show, export, stats. Knows `common`."""
