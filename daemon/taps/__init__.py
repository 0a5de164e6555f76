"""Taps: they copy the lines of agents to the daemon. Each kind of source has a module or folder of its own.

All of them use `delivery`, which brings the lines of a stream to the daemon. Taps do not depend on each other.
"""
