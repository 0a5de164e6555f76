"""Raw lines of agents in, events out: pure, without any I/O, clock or randomness.

A line passes `wire` (bytes to values), `stream` (one stream from its first line to its end), `dialects` (what the agent
meant), `core` (calls, texts, turns: what dialects share) and `tools` (canonical payloads). Times and ids come in as
arguments, so the same lines always become the same events.
"""
