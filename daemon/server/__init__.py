"""The socket: connections, requests and replies. Depends on hub, ingest, journal and views, not on HTTP."""
