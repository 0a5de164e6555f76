"""The overview of a session: its minimap and its outline, built from its events."""
