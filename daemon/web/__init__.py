"""The web gateway: events over HTTP and the page, for browsers and programs on this machine.

`server` runs it and `application` assembles it. Imports run one way: `page` and `api` hold the endpoints, `cards`
renders events, `html` renders text, and `http` is what every request needs.
"""
