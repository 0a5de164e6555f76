"""Taps the requests to servers for language models, as a reverse proxy in front of one."""
