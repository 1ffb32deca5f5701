"""The fields of a layer: Caffe's generic ones, the layer's parameters, and unknown ones, which are refused."""

from __future__ import annotations

from typing import Any

from anylayer.errors import nearest
from anylayer.layer import Definition, Registry
from anylayer.protobuf.proto_file import core
from anylayer.protobuf.schema import Schema, defaults
from anylayer.protobuf.tree import Block

GENERIC = (
    "name",
    "type",
    "bottom",
    "top",
    "loss_weight",
    "param",
    "blobs",
    "include",
    "exclude",
    "phase",
    "propagate_down",
    "blobs_lr",
    "weight_decay",
    "blob_share_mode",
)
"""The fields that every layer may have."""
_PRECISION = ("forward_type", "backward_type", "forward_math", "backward_math")
"""The fields of NVIDIA's fork that choose float16 or float32 for a layer; `default_...` for a network."""
IMPLEMENTATION = ("engine", "quantization_param", *_PRECISION)
"""The fields of Intel's and NVIDIA's forks, in any layer, that select an implementation: a kernel or the precision
of numbers.
"""
_OF_NETWORK = ("engine", "compile_net_state", "bn_stats_batch_size", *(f"default_{name}" for name in _PRECISION))
"""The same, in a network."""


def check_net(net: Block) -> list[str]:
    """Return notes on the fields that are ignored. Raise FileError for an unknown top-level field."""
    declared = core().messages["NetParameter"].fields
    for entry in net:
        if entry.name not in declared and entry.name not in _OF_NETWORK:
            raise net.fail(f"a network has no field '{entry.name}'{nearest(entry.name, declared)}", entry.line)
    names = {entry.name for entry in net}.intersection(_OF_NETWORK)
    for entry in net:
        if entry.name == "layer":
            names |= {inner.name for inner in net.as_block(entry)}.intersection(IMPLEMENTATION)
    return [
        f"{name} is ignored: it chooses the implementation in a fork of Caffe, and values are float32 here"
        for name in sorted(names - {"engine"})
    ]


def params(
    layer: Block, type_: str, definitions: list[Definition], schema: Schema | None = None
) -> dict[str, Any]:
    """Return a layer's parameters: all its fields except the generic ones.

    A layer with a definition may have the messages that its classes declare, those of other layers (which Caffe
    ignores there) and those of the schema. Raise FileError for any other field. A layer without definitions, or
    one that computes nothing, may have any field.
    """
    rest = layer.without(*GENERIC, *(IMPLEMENTATION if definitions else ()))
    any_field = all(getattr(d.cls, "role", "") in ("data", "training", "sink") for d in definitions)
    if not any_field and (schema is None or schema.partial):
        messages = {str(getattr(d.cls, "message", "")) for d in definitions}
        common = (schema or core()).messages["LayerParameter"].fields
        for entry in rest:
            if entry.name in messages or entry.name in common or entry.name in Registry.of("caffe").messages():
                continue
            hint = nearest(entry.name, messages - {""}) or nearest(entry.name, {*common, *GENERIC})
            raise layer.fail(
                f"layer '{layer.text('name')}' ({type_}) has no field '{entry.name}'{hint}", entry.line
            )
    return rest.to_dict()


def absent(layer: Block, definitions: list[Definition], schema: Schema | None) -> dict[str, Any]:
    """Return the defaults that a schema declares for the absent fields of a layer's messages."""
    if schema is None:
        return {}
    values = {e.name: _absent(e.value) for e in layer.without(*GENERIC) if isinstance(e.value, Block)}
    declared = schema.messages["LayerParameter"].fields
    for definition in definitions:
        message = str(getattr(definition.cls, "message", ""))
        if message in declared and message not in values:
            kind = declared[message].kind
            values[message] = defaults(kind) if isinstance(kind, type) else {}
    return values


def _absent(block: Block) -> dict[str, Any]:
    values = {name: value for name, value in block.defaults.items() if name not in block}
    for entry in block:
        if isinstance(entry.value, Block) and entry.name not in block.repeated:
            values[entry.name] = _absent(entry.value)
    return values
