"""HTTP itself: who may enter, queries, errors, feeds and server-sent events. It knows no endpoint, card or page."""
