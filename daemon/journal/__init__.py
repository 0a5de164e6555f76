"""The durable, ordered store of events: one interface, and a folder per implementation. Independent of its writers
and readers."""
