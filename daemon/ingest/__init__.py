"""Streams being published, each line exactly once. Knows normalizers, views and the journal, not sockets."""
