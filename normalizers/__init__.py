"""Raw provider lines in, events out: pure and sans-IO.

`stream.StreamNormalizer` is what the daemon and `tooltap normalize` drive: it frames nothing and reads no clock; lines,
times and ids come in as arguments, so the same lines always give the same events. One file per dialect; what dialects
share is in `base` (envelope, turns, sessions), `calls` (identity of tool calls), `texts` (chunked messages) and
`tools/` (one module per family of canonical tools).
"""
