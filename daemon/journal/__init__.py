"""The durable, ordered store of events: one interface, and a folder per journal. Knows nothing of who writes or
reads."""
