"""Commands that show what the journal holds."""
