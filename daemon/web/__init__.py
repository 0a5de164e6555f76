"""The web gateway: the journal and the live events over HTTP, for browsers and programs on this machine."""
