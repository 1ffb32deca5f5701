"""caffe_pb2: the messages of BVLC Caffe as classes of protobuf, made from anylayer's declarations of them.

Of forks, it has LabelMap, the names of the classes of SSD. Read networks of forks with anylayer.read or caffe.Net.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anylayer.libraries.protobuf import message_classes
from anylayer.readers.caffe.proto_file import core, parse_proto
from anylayer.readers.caffe.protobuf import descriptor
from anylayer.readers.caffe.schema import Schema
from anylayer.writers.caffe.layers import CaffeNet
from anylayer.writers.caffe.proto import PACKED, proto_text


def _declared() -> Any:
    """Return the declarations: the parameter messages of the layers' classes, and Caffe's other messages."""
    more = Path(__file__).with_name("more.proto")
    schema = parse_proto(proto_text(CaffeNet()) + more.read_text(encoding="utf-8"), more.name)
    every = core()
    others = {n: m for n, m in every.messages.items() if n not in schema.messages or n == "NetParameter"}
    enums = {n: e for n, e in every.enums.items() if n.rpartition(".")[0] in ("", *others)}
    schema.complete(Schema(every.file, others, enums))
    file = descriptor(schema)
    for message in file.message_type:
        for field in message.field:
            if (message.name, field.name) in PACKED:
                field.options.packed = True
    return file


globals().update(message_classes(_declared()))
TRAIN, TEST = 0, 1


def __getattr__(name: str) -> Any:
    raise AttributeError(f"caffe_pb2 has no message '{name}': it has those of BVLC Caffe, and LabelMap")
