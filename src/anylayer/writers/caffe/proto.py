"""The caffe.proto that goes with a network: Caffe's messages, and its layers' with the dialect's numbers."""

from __future__ import annotations

from typing import Any

from anylayer.layer import Enum, Field, Message, Registry
from anylayer.layer.contract import Filler
from anylayer.layer.fields import MISSING
from anylayer.writers.caffe.base import GENERIC, MESSAGES, NET, NUMBERS, title
from anylayer.writers.caffe.layers import CaffeNet
from anylayer.writers.caffe.schema import Fields, Schema
from anylayer.writers.caffe.text import quoted, scalar_text

_HEAD = """\
// What {what} is made of: the messages of Caffe, and of its layers as {dialect} has them.
// protoc and `anylayer --proto` read it. The V0 and V1 layers of old files are left out.
syntax = "proto2";
package caffe;
"""
_PACKED = {("BlobShape", "dim"), ("BlobProto", "data"), ("BlobProto", "diff")} | {
    ("BlobProto", "double_data"),
    ("BlobProto", "double_diff"),
}


def proto_text(net: CaffeNet) -> str:
    """The .proto of a network: it reads the network's prototxt and caffemodel."""
    schema, _ = net.fields()
    messages = _messages(schema)
    writer = _Writer()
    parameters = {name: writer.name(cls, title(name)) for name, cls in messages.items()}
    layer = [_declaration(n, f, writer) for n, f in GENERIC.items()]
    numbers = {name: schema.numbers.get(name, NUMBERS.get(name, 0)) for name in messages}
    for name in sorted(messages, key=lambda n: numbers[n]):
        repeated = "repeated" if name in _repeated(net) else "optional"
        layer.append(f"  {repeated} {parameters[name]} {name} = {numbers[name]};")
    layer += [_declaration(n, f, writer) for n, f in _plain(net, schema).items()]
    whole = [_declaration(n, f, writer) for n, f in NET.items()]
    whole.append("  repeated LayerParameter layer = 100;")
    writer.out["NetParameter"] = ["message NetParameter {", *whole, "}"]
    writer.out["LayerParameter"] = ["message LayerParameter {", *layer, "}"]
    dialect = f"the dialect '{net.dialect.name}'" if net.dialect.name else "they are spelled in it"
    head = _HEAD.format(what=f"network '{net.name}'" if net.name else "the network", dialect=dialect)
    enum = "enum Phase { TRAIN = 0; TEST = 1; }"
    return "\n\n".join([head.rstrip(), enum, *("\n".join(lines) for lines in writer.out.values())]) + "\n"


def _messages(schema: Schema) -> dict[str, type[Message]]:
    """The parameter messages of the network, and all of Caffe's own whose numbers nothing else takes."""
    found = dict(schema.messages)
    taken = {schema.numbers[name] for name in found}
    classes: list[Any] = [d.cls for d in Registry.of("caffe").definitions() if d.typed and not d.dialects]
    own = {c.message: c for c in reversed(classes) if c.message in NUMBERS and c.message not in MESSAGES}
    for name, cls in {**own, **MESSAGES}.items():
        if name not in found and NUMBERS[name] not in taken:
            found[name] = schema._adapted(name, cls)
    return found


def _repeated(net: CaffeNet) -> set[str]:
    return {n for layer in net.layers for n, v in layer.params.items() if isinstance(v, list)}


def _plain(net: CaffeNet, schema: Schema) -> Fields:
    """Fields that layers have outside of any message (of a user's layers)."""
    found: dict[str, Field] = {}
    for layer in net.layers:
        fields = schema.layer_fields(layer.type, layer.params | layer.rest)
        found.update({n: f for n, f in fields.items() if n not in GENERIC and n not in schema.messages})
    return found


class _Writer:
    """Messages as they are met, each once; `out` holds their lines by name."""

    def __init__(self) -> None:
        self.out: dict[str, list[str]] = {}
        self.shapes: dict[str, str] = {}

    def name(self, cls: type[Message], wanted: str = "") -> str:
        """The name of a message's type; its declaration is entered."""
        wanted = wanted or ("FillerParameter" if cls is Filler else cls.__name__)
        shape = repr([(n, f.number, str(f.kind), f.repeated) for n, f in cls.fields.items()])
        name, i = wanted, 1
        while self.shapes.get(name, shape) != shape:
            i += 1
            name = f"{wanted}{i}"
        if name in self.shapes:
            return name
        self.shapes[name] = shape
        self.out[name] = []
        lines = [f"message {name} {{"]
        enums: dict[str, dict[str, int]] = {}
        body = [_declaration(n, f, self, enums) for n, f in _distinct(cls.fields).items()]
        for enum, numbers in enums.items():
            words = " ".join(f"{word} = {number};" for word, number in numbers.items())
            lines.append(f"  enum {enum} {{ {words} }}")
        self.out[name] = [*lines, *body, "}"]
        return name


def _distinct(fields: Fields) -> Fields:
    """The fields in the order of their numbers; of two with one number the later declared counts."""
    by_number = {f.number: (n, f) for n, f in fields.items()}
    return dict(by_number[number] for number in sorted(by_number) if number > 0)


def _declaration(
    name: str, declared: Field, writer: _Writer, enums: dict[str, dict[str, int]] | None = None
) -> str:
    kind = declared.kind
    if isinstance(kind, Enum):
        spelled = "Phase" if kind.numbers == {"TRAIN": 0, "TEST": 1} else _enum(name, kind, enums)
    elif isinstance(kind, type):
        spelled = writer.name(kind)
    else:
        spelled = "string" if kind == "any" else str(kind)
    label = "repeated" if declared.repeated else "optional"
    options = []
    default = declared.default
    scalar = not isinstance(kind, type)
    if scalar and not declared.repeated and default is not MISSING and default is not None:
        options.append(f"default = {_default(default, declared)}")
    if any(name == field and writer.out.get(message) == [] for message, field in _PACKED):
        options.append("packed = true")
    tail = f" [{', '.join(options)}]" if options else ""
    return f"  {label} {spelled} {name} = {declared.number}{tail};"


def _enum(name: str, kind: Enum, enums: dict[str, dict[str, int]] | None) -> str:
    """The name of an enum inside its message."""
    stem = "".join(part.capitalize() for part in name.split("_"))
    if enums is None:
        return stem
    for known, numbers in enums.items():
        if numbers == kind.numbers:
            return known
    enums[stem] = kind.numbers
    return stem


def _default(value: Any, declared: Field) -> str:
    if declared.kind == "string":
        return quoted(str(value))
    return scalar_text(value, declared)
