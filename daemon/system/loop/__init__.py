"""The event loop of the daemon: what holds it, whose turn it is, and how the process ends although it is held."""
