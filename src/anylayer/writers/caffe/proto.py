"""Write the caffe.proto of a network: Caffe's messages and its layers' parameters, with the dialect's numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from anylayer.layer import Enum, Field, Message, Registry
from anylayer.layer.fields import MISSING
from anylayer.protobuf.binary import Fields
from anylayer.protobuf.text import scalar_text
from anylayer.writers.caffe.dialects import Dialect
from anylayer.writers.caffe.layers import CaffeNet
from anylayer.writers.caffe.messages import LAYER_FIELDS, MESSAGE_CLASSES, MESSAGE_NUMBERS, NET_FIELDS, title
from anylayer.writers.caffe.schema import FIRST_UNDECLARED, NetSchema

_HEAD = """\
// The messages of {what}: those of Caffe, and the parameters of its layers {dialect}.
// Read by protoc and `anylayer --proto`. The V0 and V1 layers of old files are omitted.
syntax = "proto2";
package caffe;
"""
PACKED = {("BlobShape", "dim"), ("BlobProto", "data"), ("BlobProto", "diff")} | {
    ("BlobProto", "double_data"),
    ("BlobProto", "double_diff"),
}


_RESERVED = ("NetParameter", "LayerParameter", "Phase", "TRAIN", "TEST")
"""Names in the package caffe that no parameter message may have."""


def proto_text(net: CaffeNet) -> str:
    """Return the text of a .proto that describes the network's prototxt and caffemodel."""
    schema, _ = net.fields()
    writer = _Writer()
    lists = {n for layer in net.layers for n, v in layer.params.items() if isinstance(v, list)}
    fields = _own_fields(schema, lists)
    used_numbers = {f.number for f in fields.values()}
    generic = {n: f for n, f in LAYER_FIELDS.items() if f.number not in used_numbers}
    writer.add("NetParameter", NET_FIELDS, ["  repeated LayerParameter layer = 100;"])
    writer.add("LayerParameter", {**generic, **dict(sorted(fields.items(), key=lambda item: item[1].number))})
    dialect = f"in dialect '{net.dialect.name}'" if net.dialect.name else "as the network spells them"
    head = _HEAD.format(what=f"network '{net.name}'" if net.name else "the network", dialect=dialect)
    enum = "enum Phase { TRAIN = 0; TEST = 1; }"
    return "\n\n".join([head.rstrip(), enum, *("\n".join(lines) for lines in writer.lines())]) + "\n"


def _own_fields(schema: NetSchema, repeated: set[str]) -> Fields:
    """Return LayerParameter's fields other than the generic ones.

    They are the network's, those of the schema given with it, and those of Caffe whose numbers are unused.
    """
    fields: dict[str, Field] = {}
    for name, cls in schema.messages.items():
        declared = schema.declared.get(name)
        many = name in repeated or (declared is not None and declared.repeated)
        fields[name] = Field(schema.numbers[name], cls, repeated=many)
    fields.update(schema.plain)
    fields.update({n: f for n, f in schema.declared.items() if n not in fields and n not in LAYER_FIELDS})
    used_numbers = {f.number for f in fields.values()}
    for name, (cls, number) in declared_messages(schema.dialect).items():
        if name not in fields and number not in used_numbers:
            fields[name] = Field(number, schema.adapted(name, cls))
    return fields


def declared_messages(dialect: Dialect) -> dict[str, tuple[type[Message], int]]:
    """Return the class and the number of each parameter message of a dialect, its own before those of Caffe.

    A message whose number in the dialect is not known is left out, and so is one of Caffe whose number the dialect
    uses otherwise. In the dialect "", they are Caffe's.
    """
    specific: dict[str, tuple[type[Message], int]] = {}
    common: dict[str, tuple[type[Message], int]] = {}
    definitions = [d for d in Registry.of("caffe").definitions() if d.typed]
    for definition in reversed(definitions):
        cls = definition.layer_class
        if dialect.name and definition in dialect.own(definition.type):
            common_number = cls.numbers.get("", FIRST_UNDECLARED)
            free = 0 if common_number in (FIRST_UNDECLARED, *MESSAGE_NUMBERS.values()) else common_number
            number = cls.numbers.get(dialect.name, MESSAGE_NUMBERS.get(cls.message, free))
            if cls.message and number:
                specific[cls.message] = cls, number
        if not definition.dialects and cls.message in MESSAGE_NUMBERS and definition.type not in dialect.lacks:
            common[cls.message] = cls, MESSAGE_NUMBERS[cls.message]
    common.update({name: (cls, MESSAGE_NUMBERS[name]) for name, cls in MESSAGE_CLASSES.items()})
    used_numbers = {number for _, number in specific.values()}
    return specific | {n: pair for n, pair in common.items() if n not in specific and pair[1] not in used_numbers}


class _Writer:
    """Collects the declarations of messages in order of occurrence, each once.

    `out` maps a message to its lines, `shapes` to what distinguishes it from another message of the same name,
    `enums_of` to the enums that are declared in it for other messages to use.
    """

    def __init__(self) -> None:
        self.out: dict[str, list[str]] = {}
        self.shapes: dict[str, Any] = dict.fromkeys(_RESERVED)
        self.enums_of: dict[str, dict[str, Enum]] = {}

    def name(self, cls: type[Message], wanted: str = "") -> str:
        """Return the type name of a message, and add its declaration. If `wanted` is taken, it gets a number."""
        wanted = wanted or cls.__name__
        shape = _shape(cls)
        name, i = wanted, 1
        while self.shapes.get(name, shape) != shape:
            i += 1
            name = f"{wanted}{i}"
        if name not in self.shapes:
            self.shapes[name] = shape
            self.add(name, _distinct(cls.fields))
            origin: Any = getattr(cls, "origin", None) or cls
            for enum in origin.enums:
                self.declare_enum(enum)
        return name

    def add(self, name: str, fields: Fields, more: Sequence[str] = ()) -> None:
        """Add the declaration of a message. `more` are lines before its end."""
        self.out[name] = []
        enums: dict[str, dict[str, int]] = {}
        body = [self._declaration(name, n, f, fields, enums) for n, f in fields.items()]
        lines = [_enum_line(stem, numbers) for stem, numbers in enums.items()]
        self.out[name] = [f"message {name} {{", *(f"  {line}" for line in lines), *body, *more, "}"]

    def declare_enum(self, enum: Enum) -> str:
        """Declare an enum in the message that it belongs to and return its full name."""
        message, name = enum.home or ("", "")
        self.enums_of.setdefault(message, {})[name] = enum
        return f"{message}.{name}"

    def lines(self) -> Iterator[list[str]]:
        """Yield the lines of each declaration."""
        for message, enums in self.enums_of.items():
            head, *rest = self.out.get(message, [f"message {message} {{", "}"])
            self.out[message] = [head, *(f"  {_enum_line(n, e.numbers)}" for n, e in enums.items()), *rest]
        yield from self.out.values()

    def _declaration(
        self, message: str, name: str, declared: Field, fields: Fields, enums: dict[str, dict[str, int]]
    ) -> str:
        """Return the line that declares a field. Add the enum or message of its type."""
        kind = declared.kind
        if isinstance(kind, Enum):
            phase = kind.numbers == {"TRAIN": 0, "TEST": 1}
            enum_name = "Phase" if phase else self.declare_enum(kind) if kind.home else ""
            spelled = enum_name or self._enum(message, name, kind, fields, enums)
        elif isinstance(kind, type):
            spelled = self.name(
                kind, title(name) if message == "LayerParameter" and name not in LAYER_FIELDS else ""
            )
        else:
            spelled = "string" if kind == "any" else str(kind)
        label = "repeated" if declared.repeated else "optional"
        options = []
        default = declared.default if declared.stated is MISSING else declared.stated
        scalar = not isinstance(kind, type)
        if scalar and not declared.repeated and default is not MISSING and default is not None:
            options.append(f"default = {scalar_text(default, declared)}")
        if (message, name) in PACKED:
            options.append("packed = true")
        tail = f" [{', '.join(options)}]" if options else ""
        return f"  {label} {spelled} {name} = {declared.number}{tail};"

    def _enum(self, message: str, name: str, kind: Enum, fields: Fields, enums: dict[str, dict[str, int]]) -> str:
        """Declare an enum and return its name.

        It is declared in its own message. The words of an enum are names in the scope of the enclosing message, so
        where one of them is used there already, a new message encloses the enum.
        """
        stem = "".join(part.capitalize() for part in name.split("_"))
        for enum_name, numbers in enums.items():
            if numbers == kind.numbers:
                return enum_name
        names = {*fields, *enums, *(word for numbers in enums.values() for word in numbers)}
        if stem not in kind.numbers and not names.intersection((stem, *kind.numbers)):
            enums[stem] = kind.numbers
            return stem
        own, inner = f"{message}{stem}", "Values"
        while own in self.shapes:
            own += "_"
        while inner in kind.numbers:
            inner += "_"
        self.shapes[own] = None
        self.out[own] = [f"message {own} {{", f"  {_enum_line(inner, kind.numbers)}", "}"]
        return f"{own}.{inner}"


def _enum_line(name: str, numbers: Mapping[str, int]) -> str:
    alias = "option allow_alias = true; " if len(set(numbers.values())) < len(numbers) else ""
    words = " ".join(f"{word} = {number};" for word, number in numbers.items())
    return f"enum {name} {{ {alias}{words} }}"


def _shape(cls: type[Message], around: tuple[type[Message], ...] = ()) -> Any:
    """Return what distinguishes messages of one name: fields, numbers, types and defaults, recursively.

    `around` are the messages that enclose this one; recursion stops there.
    """
    if cls in around:
        return cls.__name__
    shapes = []
    for name, declared in cls.fields.items():
        kind = declared.kind
        inner = _shape(kind, (*around, cls)) if isinstance(kind, type) else str(kind)
        default = None if isinstance(kind, type) or declared.repeated else repr(declared.default)
        numbers = tuple(kind.numbers.values()) if isinstance(kind, Enum) else ()
        shapes.append((name, declared.number, inner, numbers, declared.repeated, default))
    return tuple(shapes)


def _distinct(fields: Fields) -> Fields:
    """Return the fields in the order of their numbers. Of two with the same number, keep the later one."""
    by_number = {f.number: (n, f) for n, f in fields.items()}
    return dict(by_number[number] for number in sorted(by_number) if number > 0)
