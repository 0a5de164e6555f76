"""What the calls of a session did to files: from canonical tool events to one cumulative diff for each file."""
