"""Taps: they copy the lines of agents to the daemon, each kind of source in a module or folder of its own.

`delivery` is common to them: it brings the lines of a stream to the daemon. The taps know nothing of each other.
"""
