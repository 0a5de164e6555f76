"""HTTP itself: who may enter, queries, errors, live events, and what the endpoints are. It knows no page."""
