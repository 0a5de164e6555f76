"""The web gateway: events over HTTP and the page, for browsers and programs on this machine; `tooltap[web]`."""
