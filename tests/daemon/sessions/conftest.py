"""The journals of `tests/daemon/journal`: facts about sessions are tested on each of them."""

from tests.daemon.journal.conftest import clock, journal, place, sqlite_journal

__all__ = ["clock", "journal", "place", "sqlite_journal"]
