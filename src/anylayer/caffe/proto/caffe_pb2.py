"""caffe_pb2: the messages of Caffe as classes of protobuf, made from anylayer's declarations of them.

They are those of BVLC's Caffe. `caffe_pb2.dialect("ssd")` returns a module with the messages of a fork, with the
fork's numbers of fields, and `caffe.install(dialect="ssd")` makes this module one. A field that the fork has, and
whose number anylayer does not know, is left out. All have LabelMap, the names of the classes of SSD.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from anylayer.errors import InputError, need
from anylayer.layer import Registry
from anylayer.libraries.protobuf import message_classes
from anylayer.protobuf.proto_file import core, parse_proto
from anylayer.protobuf.schema import Schema
from anylayer.readers.caffe.protobuf import descriptor
from anylayer.writers.caffe.dialects import Dialect, dialect_of
from anylayer.writers.caffe.layers import CaffeNet
from anylayer.writers.caffe.proto import PACKED, declared_messages, proto_text

TRAIN, TEST = 0, 1


@cache
def dialect(name: str) -> ModuleType:
    """Return a module with the messages of a dialect of Caffe, like this one.

    Raise InputError for an unknown dialect, and for one that uses numbers which are not known.
    """
    dialect = dialect_of(name)
    declared = declared_messages(dialect)
    types = Registry.of("caffe").types()
    classes = [d.layer_class for type_ in types for d in dialect.own(type_) if name in d.dialects]
    unknown = sorted({cls.message for cls in classes if cls.numbers.get(name) != 0} - set(declared))
    need(not unknown, f"the field numbers of {', '.join(unknown)} in dialect '{name}' are not known", InputError)
    module = ModuleType(f"{__name__}.dialect('{name}')", f"The messages of Caffe in dialect '{name}'.")
    vars(module).update(_messages(dialect), TRAIN=TRAIN, TEST=TEST, __getattr__=lambda n: _missing(n, name))
    return module


def use(name: str) -> None:
    """Replace the messages of this module by those of a dialect."""
    messages = {n: m for n, m in vars(dialect(name)).items() if not n.startswith("__")}
    for old in _current["messages"]:
        del globals()[old]
    globals().update(messages)
    _current.update(messages=list(messages), dialect=name)


def _messages(dialect: Dialect) -> dict[str, Any]:
    """Return the classes: the parameter messages of the layers' classes, and Caffe's other messages."""
    more = Path(__file__).with_name("more.proto")
    schema = parse_proto(proto_text(CaffeNet(dialect=dialect)) + more.read_text(encoding="utf-8"), more.name)
    every = core()
    others = {n: m for n, m in every.messages.items() if n not in schema.messages or n == "NetParameter"}
    enums = {n: e for n, e in every.enums.items() if n.rpartition(".")[0] in ("", *others)}
    schema.complete(Schema(every.file, others, enums))
    file = descriptor(schema)
    for message in file.message_type:
        for field in message.field:
            if (message.name, field.name) in PACKED:
                field.options.packed = True
    return message_classes(file)


def _missing(name: str, of: str) -> Any:
    whose = "BVLC Caffe" if of == "bvlc" else f"dialect '{of}'"
    raise AttributeError(f"caffe_pb2 has no message '{name}': it has those of {whose}, and LabelMap")


_current: dict[str, Any] = {"messages": [], "dialect": "bvlc"}
use("bvlc")


def __getattr__(name: str) -> Any:
    return _missing(name, _current["dialect"])
