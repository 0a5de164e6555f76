"""Search over the text of all events: an index beside the journal, which can be rebuilt from it."""
