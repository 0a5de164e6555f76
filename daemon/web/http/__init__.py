"""HTTP itself: who may enter, queries, errors, and live events. It knows no endpoint and no page."""
