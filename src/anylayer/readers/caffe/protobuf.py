"""Check the three files of a written Caffe network (.prototxt, .caffemodel, .proto) with Google's protobuf.

Caffe and every other program read these files with protobuf. Each field that protobuf reads must be the same as in
the source network.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.errors import ConversionError, at, need, shortened
from anylayer.layer import Enum, Field
from anylayer.layer.fields import MISSING, TRUE_WORDS
from anylayer.libraries.protobuf import DecodeError, descriptor_pb2, message_class, parse_text
from anylayer.protobuf.binary import BYTES, MappedFile, as_list, tag, varint
from anylayer.protobuf.proto_file import read_proto
from anylayer.protobuf.schema import Schema, name_of
from anylayer.readers._names import layer_place
from anylayer.readers.caffe.fields import GENERIC

_LAYER, _BLOBS = 100, 7
"""Field numbers of NetParameter.layer and LayerParameter.blobs."""


def prove(files: Sequence[Path], params: Mapping[str, Mapping[str, Any]]) -> None:
    """Check that a prototxt and a .caffemodel are the same network and have the given parameters of layers.

    `files` are the .proto, the .caffemodel and the prototxt. `params` maps names of layers to parameters. Raise
    ConversionError with the layer and the field.
    """
    proto, weights, text = files
    from_text, from_binary = _networks(proto, weights, text)
    layers: dict[str, Any] = {}
    for one, other in zip(from_text.layer, from_binary.layer):
        with at(layer_place(one.name, one.type)):
            same = one.SerializeToString(deterministic=True) == other.SerializeToString(deterministic=True)
            need(same, f"protobuf reads {text.name} and {weights.name} differently", ConversionError)
        layers.setdefault(one.name, one)
    need(
        len(from_text.layer) == len(from_binary.layer),
        f"{text.name} has {len(from_text.layer)} layers, {weights.name} has {len(from_binary.layer)}",
        ConversionError,
    )
    for name, fields in params.items():
        need(name in layers, f"protobuf finds no layer '{name}' in {text.name}", ConversionError)
        with at(layer_place(name, layers[name].type)):
            specific = {n: v for n, v in fields.items() if n not in GENERIC}
            _compare(layers[name], specific, "", GENERIC)


def _networks(proto: Path, weights: Path, text: Path) -> tuple[Any, Any]:
    """Return the network in the prototxt and the one in the .caffemodel, the latter without blobs."""
    try:
        net = message_class(descriptor(read_proto(proto)), "caffe.NetParameter")
    except ValueError as error:
        raise ConversionError(f"protobuf refuses {proto.name}: {error}") from None
    one, other = net(), net()
    try:
        parse_text(text.read_text(encoding="utf-8"), one)
    except ValueError as error:
        raise ConversionError(f"protobuf refuses {text.name}, read by {proto.name}: {error}") from None
    try:
        other.ParseFromString(_without_blobs(MappedFile(weights)))
    except DecodeError as error:
        raise ConversionError(f"protobuf refuses {weights.name}, read by {proto.name}: {error}") from None
    return one, other


def _compare(message: Any, expected: Mapping[str, Any], path: str, ignored: Iterable[str] = ()) -> None:
    """Raise ConversionError if a message has other fields or values than `expected`, except for the `ignored`."""
    present = {field.name: (field, value) for field, value in message.ListFields() if field.name not in ignored}
    for name in expected:
        values = as_list(expected[name])
        exists = name in present or not values
        rule = f"field '{path}{name}' is {_excerpt(expected[name])} in the source, but protobuf does not find it"
        need(exists, rule, ConversionError)
    for name, (field, value) in present.items():
        need(
            name in expected,
            f"field '{path}{name}' is not in the source, but protobuf reads {_excerpt(value)}",
            ConversionError,
        )
        read = list(value) if field.is_repeated else [value]
        in_source = as_list(expected[name])
        need(
            len(read) == len(in_source),
            f"field '{path}{name}' has {len(in_source)} values in the source, but protobuf reads {len(read)}",
            ConversionError,
        )
        for one, other in zip(in_source, read):
            if isinstance(one, Mapping) and field.message_type is not None:
                _compare(other, one, f"{path}{name}.")
                continue
            need(
                field.message_type is None and _same(one, other, field),
                f"field '{path}{name}' is {_excerpt(one)} in the source, but protobuf reads "
                f"{_excerpt(_value(other, field))}",
                ConversionError,
            )


def _value(read: Any, field: Any) -> Any:
    """Return a value as the prototxt spells it."""
    if field.enum_type is not None:
        return field.enum_type.values_by_number[read].name
    return read


def _same(value: Any, read: Any, field: Any) -> bool:
    """Return whether a value of the source equals the one that protobuf reads."""
    if isinstance(value, Mapping):
        return False
    if field.enum_type is not None:
        return (str(value) == _value(read, field)) if isinstance(value, str) else bool(int(value) == read)
    if field.cpp_type == field.CPPTYPE_BOOL:
        truth = value in TRUE_WORDS if isinstance(value, str) else bool(value)
        return bool(truth == read)
    if isinstance(read, (str, bytes)) or isinstance(value, str):
        text = read.decode("utf-8", "backslashreplace") if isinstance(read, bytes) else read
        return bool(value == text)
    if field.cpp_type == field.CPPTYPE_FLOAT:
        with np.errstate(over="ignore"):
            value = float(np.float32(value))
    return bool(value == read) or (math.isnan(value) and math.isnan(read))


def _excerpt(value: Any) -> str:
    text = f'"{value}"' if type(value) is str else str(value)
    return shortened(text)


def _without_blobs(buffer: MappedFile) -> bytes:
    """Return the bytes of a NetParameter without the blobs of its layers."""
    out = bytearray()
    for number, kind, low, high in buffer.fields(0, buffer.size):
        value = bytes(buffer.data[low:high]) if number != _LAYER else b""
        if number == _LAYER:
            for inner, of, start, stop in buffer.fields(low, high):
                if inner != _BLOBS:
                    value += _field(inner, of, bytes(buffer.data[start:stop]))
        out += _field(number, kind, value)
    return bytes(out)


def _field(number: int, kind: int, value: bytes) -> bytes:
    return tag(number, kind) + (varint(len(value)) if kind == BYTES else b"") + value


# ---- a Schema as a protobuf descriptor


def descriptor(schema: Schema) -> Any:
    """Return a schema as a FileDescriptorProto of package caffe."""
    file = descriptor_pb2.FileDescriptorProto(name="net.proto", package="caffe", syntax="proto2")
    holders: dict[str, Any] = {"": file}
    for name in sorted(schema.messages, key=lambda n: n.count(".")):
        scope, _, short_name = name.rpartition(".")
        inside = holders[scope].nested_type if scope else file.message_type
        holders[name] = message = inside.add(name=short_name)
        for declared in schema.messages[name].fields.values():
            _add_field(message, declared)
    for name, enum in schema.enums.items():
        scope, _, short_name = name.rpartition(".")
        added = holders[scope].enum_type.add(name=short_name)
        added.options.allow_alias = len(set(enum.numbers.values())) < len(enum.numbers)
        for word, number in enum.numbers.items():
            added.value.add(name=word, number=number)
    return file


def _add_field(message: Any, declared: Field) -> None:
    kinds = descriptor_pb2.FieldDescriptorProto
    label = kinds.LABEL_REPEATED if declared.repeated else kinds.LABEL_OPTIONAL
    field = message.field.add(name=declared.name, number=declared.number, label=label)
    if isinstance(declared.kind, str):
        field.type = getattr(kinds, f"TYPE_{declared.kind.upper()}")
    else:
        field.type = kinds.TYPE_ENUM if isinstance(declared.kind, Enum) else kinds.TYPE_MESSAGE
        field.type_name = f".caffe.{name_of(declared.kind)}"
    if declared.default not in (None, MISSING):
        default = declared.default
        field.default_value = str(default in TRUE_WORDS).lower() if declared.kind == "bool" else str(default)
