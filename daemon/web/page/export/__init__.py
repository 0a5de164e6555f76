"""Sessions as files for others: HTML and Markdown, from the journal or from recordings, without secrets."""
