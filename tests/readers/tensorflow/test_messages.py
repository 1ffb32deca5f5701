"""Records of messages that are declared inside others."""

from __future__ import annotations

from pathlib import Path

import pytest

from anylayer.protobuf.binary import MappedFile, encode
from anylayer.protobuf.proto_file import parse_proto
from anylayer.readers.tensorflow import messages

PROTO = """
message First { message Item { optional int64 size = 1; } optional Item item = 1; }
message Second { message Item { optional string name = 1; } optional Item item = 2; }
"""


def test_nested_messages_of_one_name_have_their_own_fields(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = parse_proto(PROTO, "toy.proto")
    monkeypatch.setattr(messages, "schema", lambda: schema)
    for name, values in (("First", {"item": {"size": 7}}), ("Second", {"item": {"name": "x"}})):
        path = tmp_path / name
        path.write_bytes(encode(values, schema.messages[name].fields))
        buffer = MappedFile(path)
        item = messages.decode(buffer, name, 0, buffer.size).record("item")
        assert item.fields == {key: [value] for key, value in values["item"].items()}
