"""The daemon's tests run on asyncio, as the daemon does; those of NATS share one server."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.daemon.nats_server import NatsServer
from tests.normalizers.conftest import toy as toy
from tooltap.daemon.journal.nats.place import NatsPlace, parse_nats_url

_journals = count(1)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture
def nats_place(nats_server: NatsServer) -> NatsPlace:
    """A journal of its own on the shared server."""
    return parse_nats_url(f"{nats_server.url}/j{next(_journals)}")
