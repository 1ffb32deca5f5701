"""Google's protobuf, which comes with the onnx package. This is the only file that imports it."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message import DecodeError

__all__ = ["DecodeError", "descriptor_pb2", "message_class", "message_classes", "parse_text"]

_NO_SUCH_TYPE = (TypeError, KeyError)


def message_class(file: Any, name: str) -> Any:
    """Return the class of a message that a FileDescriptorProto declares.

    Raises ValueError where the declarations do not fit together.
    """
    pool = descriptor_pool.DescriptorPool()
    try:
        pool.Add(file)
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    except _NO_SUCH_TYPE as error:
        raise ValueError(str(error)) from None


def message_classes(file: Any) -> dict[str, Any]:
    """Return the classes of the messages and enums at the top level of a FileDescriptorProto, by name."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    package = f"{file.package}." if file.package else ""
    messages = [(m.name, f"{package}{m.name}") for m in file.message_type]
    enums = [(e.name, f"{package}{e.name}") for e in file.enum_type]
    return {
        **{name: message_factory.GetMessageClass(pool.FindMessageTypeByName(full)) for name, full in messages},
        **{name: EnumTypeWrapper(pool.FindEnumTypeByName(full)) for name, full in enums},
    }


def parse_text(text: str, message: Any) -> None:
    """Fill a message from its text form. Raises ValueError with line and column."""
    try:
        text_format.Parse(text, message)
    except text_format.ParseError as error:
        raise ValueError(str(error)) from None
