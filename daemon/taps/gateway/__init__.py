"""The gateway: a tap for requests to language models, as a reverse proxy in front of their server."""
