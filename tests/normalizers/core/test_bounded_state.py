"""The state of every parser stays small on an endless stream in which almost nothing ends.

`TOOLTAP_ENDLESS_LINES` sets how many lines are fed; the default is a tenth of what reaches every bound, which
`.ci/run` feeds.
"""

import os

import pytest

from tests.normalizers.endless import lines
from tooltap.normalizers.catalog.registry import builtin
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.stream.normalizer import StreamNormalizer

LINES = int(os.environ.get("TOOLTAP_ENDLESS_LINES", "3000"))
MAX_DUMP_BYTES = 8 * 1024 * 1024


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("dialect", builtin())
def test_dump_of_endless_stream_is_bounded(dialect: str) -> None:
    normalizer = StreamNormalizer(Context(stream="s"), dialect)
    largest = 0

    for number, line in enumerate(lines(dialect, LINES)):
        normalizer.feed(line.data)
        if number % 10_000 == 0:
            largest = max(largest, len(normalizer.dump()))

    assert normalizer.statistics.lines == LINES
    assert max(largest, len(normalizer.dump())) < MAX_DUMP_BYTES
