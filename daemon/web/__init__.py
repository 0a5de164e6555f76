"""The web gateway: events over HTTP and the page, for browsers and programs on this machine.

`server` runs it. Imports run one way: `page` and `api` hold the endpoints, and `http` has what every request needs.
"""
