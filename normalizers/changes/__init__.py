"""Changes of files by the calls of a session: from canonical tool events to one cumulative diff for each file."""
