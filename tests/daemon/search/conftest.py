"""New journals, as in the tests of journals."""

from tests.daemon.journal.conftest import clock as clock
from tests.daemon.journal.conftest import journal as journal
from tests.daemon.journal.conftest import place as place
from tests.daemon.journal.conftest import sqlite_journal as sqlite_journal
