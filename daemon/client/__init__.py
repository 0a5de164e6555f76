"""The client of the daemon's socket: subscribe, publish, request. It knows the protocol, and nothing of the daemon."""
