"""The socket: connections, requests and replies. Knows hub, ingest, journal and views; nothing here knows HTTP."""
