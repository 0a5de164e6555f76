"""Streams being published: each line is committed exactly once. Depends on normalizers, views and the journal, not on
sockets."""
