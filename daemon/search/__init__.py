"""Search over the text of all events: an index beside the journal, which is made of it and can be made again."""
