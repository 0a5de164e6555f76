"""The views of one event, and what differs between them."""
