"""The keys that join the requests of an agent with the responses to them."""

from __future__ import annotations

import orjson
import pytest

from tooltap.protocol.answers import request_key, response_key


@pytest.mark.parametrize(
    ("line", "request_of", "response_to"),
    [
        ('{"jsonrpc":"2.0","id":0,"method":"session/request_permission"}', "rpc:0", None),
        ('{"jsonrpc":"2.0","id":0,"result":{}}', None, "rpc:0"),
        ('{"id":"a\\"b","result":null}', None, 'rpc:"a\\"b"'),
        ('{"id":1,"error":{"code":-32800}}', None, "rpc:1"),
        ('{"id":1,"method":"a","result":{}}', "rpc:1", None),
        ('{"id":null,"result":{}}', None, None),
        (f'{{"id":{"[" * 300}{"]" * 300},"result":{{}}}}', None, None),
        ('{"method":"session/update"}', None, None),
        ('{"type":"control_request","request_id":"r","request":{}}', "control:r", None),
        ('{"type":"control_response","response":{"subtype":"success","request_id":"r"}}', None, "control:r"),
        ('{"type":"control_response","response":1}', None, None),
        ('{"type":"control_request","request_id":1}', None, None),
        ("[]", None, None),
        ("1", None, None),
    ],
)
def test_request_and_response_have_one_key(line: str, request_of: str | None, response_to: str | None) -> None:
    message = orjson.loads(line)

    assert (request_key(message), response_key(message)) == (request_of, response_to)
