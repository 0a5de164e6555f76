"""The delivery of a stream from a tap to the daemon: outbox, spool, ingest connection. Independent of the source."""
