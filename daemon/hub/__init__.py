"""Live events for subscribers: fan-out, and catching up from the journal. Knows the journal, not connections."""
