"""The page and its endpoints: timeline, live cards, one event, preferences, and its export as a file."""
