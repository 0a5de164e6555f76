"""The client of the daemon's socket: subscribe, publish, request. Depends on the protocol only, not on the daemon."""
