"""Sessions: what a session is, what it used and cost, and which of the streams that report it is believed."""
