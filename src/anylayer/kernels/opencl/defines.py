"""The #define lines before a kernel's source: OpenVINO's built-in ones, then the user's."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anylayer.errors import LayerError, at, given, need
from anylayer.kernels.opencl.configuration import CustomLayer, Define
from anylayer.network import Flag, Node

TYPES = {
    "float32": "float", "float16": "half", "float64": "double", "int8": "char", "uint8": "uchar", "int16": "short",
    "uint16": "ushort", "int32": "int", "uint32": "uint", "int64": "long", "uint64": "ulong",
}  # fmt: skip
"""OpenCL's names of element types."""
_INTEGER = re.compile(r"[+-]?\d+|true|false", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fF]?|true|false|[+-]?INFINITY|NAN", re.ASCII)
_PLAIN = re.compile(r"[\w.+-]+", re.ASCII)
_NOT_FINITE = {"inf": "INFINITY", "+inf": "INFINITY", "-inf": "-INFINITY", "nan": "NAN", "-nan": "NAN"}
_PATTERNS = {"int": _INTEGER, "int[]": _INTEGER, "float": _NUMBER, "float[]": _NUMBER}


@dataclass(frozen=True, slots=True)
class KernelTensor:
    """A tensor of a kernel: its name ("INPUT0"), element type, format, and sizes and pitches for B, F, Y, X."""

    name: str
    type: str
    format: str
    sizes: tuple[int, ...]
    pitches: tuple[int, ...]

    def lines(self) -> Iterator[str]:
        """Yield its built-in defines."""
        yield from _array(f"{self.name}_DIMS", "int", self.sizes)
        yield f"#define {self.name}_TYPE {self.type}"
        yield f"#define {self.name}_FORMAT_{self.format} "
        for side in ("LOWER", "UPPER"):
            yield from _array(f"{self.name}_{side}_PADDING", "int", (0,) * len(self.sizes))
        yield from _array(f"{self.name}_PITCHES", "int", self.pitches)
        yield f"#define {self.name}_OFFSET 0"


def _array(name: str, type_: str, values: Sequence[int]) -> Iterator[str]:
    yield f"#define {name}_SIZE {len(values)}"
    yield f"#define {name} ({type_} []){{ {''.join(f'{v},' for v in values)} }} "


def built_ins(tensors: Sequence[KernelTensor], whole: Sequence[int], local: Sequence[int]) -> list[str]:
    """Return the lines of the built-in defines. The inputs come before the outputs."""
    lines = ["// Custom Layer Built-ins"]
    lines.append(f"#define NUM_INPUTS {sum(t.name.startswith('INPUT') for t in tensors)}")
    lines += [*_array("GLOBAL_WORKSIZE", "size_t", whole), *_array("LOCAL_WORKSIZE", "size_t", local)]
    for tensor in tensors:
        lines += tensor.lines()
    return lines


def user_defines(layer: CustomLayer, node: Node) -> list[tuple[int, str]]:
    """Return the user's defines, each with its line in the configuration, for the parameters of a node.

    Raise LayerError for a parameter that is missing without a default, or whose value does not have the type.
    """
    lines = []
    for define in layer.defines:
        with at(f"{layer.file}:{define.line}"):
            value = _value(define, node)
            if define.type.endswith("[]"):
                value = f"({define.type}) {{{value}}}"
            lines.append((define.line, f"#define {define.name} {value}"))
    return lines


def _value(define: Define, node: Node) -> str:
    text = parameter_text(node, define.param) if define.param else None
    if text is None:
        missing = f"the layer has no parameter '{define.param}', and '{define.name}' has no default"
        return given(define.value, missing) if define.param else define.value or ""
    parts = [_NOT_FINITE.get(part.strip().lower(), part.strip()) for part in text.split(",")]
    need(
        len(parts) == 1 or define.type not in ("int", "float"),
        f"parameter '{define.param}' is {text[:60]!r}, a list, and '{define.name}' is {define.type}",
    )
    pattern = _PATTERNS.get(define.type, _PLAIN)
    for part in parts:
        what = f"{define.type.removesuffix('[]')}" if define.type else "number or word"
        need(
            pattern.fullmatch(part),
            f"parameter '{define.param}' is {text[:60]!r}, and '{define.name}' takes only a value that is one "
            f"{what}" + (", or a list of these" if define.type.endswith("[]") or not define.type else ""),
        )
    return text if len(parts) == 1 and parts[0] == text else ",".join(parts)


def parameter_texts(layer: CustomLayer, node: Node) -> dict[str, str]:
    """Return the parameters of a node that the user's defines read, as user_defines spells them."""
    read = (d for d in layer.defines if d.param and parameter_text(node, d.param) is not None)
    return {define.param: _value(define, node) for define in read}


def parameter_text(node: Node, name: str) -> str | None:
    """Return a parameter as the file spells it, None where the node does not have it.

    A parameter inside a message is found by its own name. A value without the file's spelling is spelled as in
    Python.
    """
    if name in node.texts:
        return node.texts[name]
    for source in (node.params, node.defaults):
        path = _path(source, name)
        if path is not None:
            dotted, value = path
            return node.texts.get(dotted) or _define_text(value, name)
    return None


def _path(values: Mapping[str, Any], name: str, prefix: str = "") -> tuple[str, Any] | None:
    """Return the dotted path and the value of a parameter. A message's own fields come before nested ones."""
    if name in values and not isinstance(values[name], Mapping):
        return prefix + name, values[name]
    for key, value in values.items():
        if isinstance(value, Mapping):
            inner = _path(value, name, f"{prefix}{key}.")
            if inner is not None:
                return inner
    return None


def _define_text(value: Any, name: str) -> str:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return ",".join(_define_text(v, name) for v in value)
    if isinstance(value, (bool, Flag)):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (int, float, str)):
        return str(value)
    raise LayerError(f"parameter '{name}' is {type(value).__name__}, which a define cannot hold")
