"""Calls a person when a session waits, is done, or has failed: by a command, or by a webhook."""
