"""The overview of a session: its minimap and its outline, made of its events."""
