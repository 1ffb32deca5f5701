"""Write the text of a layers file for unknown layers. Text from the network's file is quoted, not trusted."""

from __future__ import annotations

import keyword
import re
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anylayer.errors import plural, shortened
from anylayer.layer.opencv import opencv_params
from anylayer.layer.order import ORDERS, permuted
from anylayer.network import Flag, Network, Node, TensorType

if TYPE_CHECKING:
    from anylayer.inspect.report import NodeReport

_ABSENT = object()
_RESERVED = {"np", "anylayer", "blobs", "forward", "getMemoryShapes"}
_MAX_VALUE_LENGTH = 77
"""The largest number of characters of a param's value; a longer one is cut."""

_PROGRAM_LENGTH = 200
"""A longer text is regarded as a program, which no forward reads."""

_DESCRIBED = 8
"""The number of nodes of one type that are described."""


def stub_file(
    network: Network, reports: Sequence[NodeReport], types: Sequence[str], command: str, names: Container[str] = ()
) -> str:
    """Return a Python file with a class, in the contract of OpenCV's custom layers, and a test for each type.

    `reports` are the rows of `inspect`, one per node of the network. `command` is the command that runs the
    network. `names` are the `types` that are names of nodes instead of layer types.
    """
    head = [
        f'"""Layers for {_doc(network.source)}. Write each forward, then run:',
        "",
        f"    {_doc(command)}",
        '"""',
        "",
        "import numpy as np",
        "",
        "import anylayer",
    ]
    names_taken = set(_RESERVED)
    parts = ["\n".join(head)]
    tests = []
    for type_ in types:
        pairs = zip(network.nodes, reports)
        nodes = [(n, r) for n, r in pairs if (n.name if type_ in names else n.type) == type_]
        name = _unused_name(_identifier(type_), names_taken)
        parts.append(_class(network, type_, name, nodes))
        test = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
        tests.append(_test(_unused_name(f"test_{test}", names_taken), name, nodes))
    return "\n\n\n".join([*parts, *tests]) + "\n"


def _class(network: Network, type_: str, name: str, nodes: Sequence[tuple[Node, NodeReport]]) -> str:
    """Return the class of one type."""
    flat = [opencv_params(n.params, n.defaults) for n, _ in nodes]
    lines = [
        f"@anylayer.layer({_quote(type_)})",
        f"class {name}:",
        f'    """{_doc(type_)}: {len(nodes)} in the network.',
        "",
    ]
    order = _order(nodes)
    for (node, report), values in list(zip(nodes, flat))[:_DESCRIBED]:
        lines += [f"    {line}".rstrip() for line in _describe(network, node, report, values)]
    if len(nodes) > _DESCRIBED:
        lines.append(f"    ... and {len(nodes) - _DESCRIBED} more.")
    lines += ['    """', ""]
    if order is not None:
        file, seen = order
        other = f'as in OpenCV; the file has "{file}"' if seen != file else "as in the file"
        lines += [f'    layout = "{seen}"  # the layout of arrays of rank 4, {other}', ""]
    lines += ["    def __init__(self, params, blobs):"]
    lines += [f"        {line}" for line in _fields(nodes, flat)]
    lines += ["", "    def forward(self, inputs):"]
    lines += [f"        {line}" for line in _forward(type_, nodes)]
    return "\n".join(lines)


def _order(nodes: Sequence[tuple[Node, NodeReport]]) -> tuple[str, str] | None:
    """Return the layout in the file and the one that the class sees; None where the format determines it."""
    layouts = {(n.layout, n.opencv_layout or n.layout) for n, _ in nodes}
    file, seen = layouts.pop()
    kinds = [kind for _, r in nodes for _, kind in (*r.inputs, *r.outputs)]
    images = any(kind is not None and len(kind.shape) == 4 for kind in kinds) or not any(kinds)
    return (file, seen) if not layouts and images and file in ORDERS and "NHWC" in (file, seen) else None


def _seen_type(node: Node, kind: TensorType | None) -> TensorType | None:
    """Return a value's type in the layout that the class sees."""
    if kind is None or node.layout not in ORDERS:
        return kind
    return TensorType(permuted(kind.shape, node.layout, node.opencv_layout or node.layout), kind.dtype)


def _describe(network: Network, node: Node, report: NodeReport, values: Mapping[str, Any]) -> list[str]:
    """Return lines that describe a node: inputs and outputs with shapes and consumers, weights and params."""
    place = re.search(r":(\d+): layer ", node.place)
    lines = [f"{_doc(node.name)}" + (f" (line {place.group(1)})" if place else "")]
    for (name, kind), what in [*((i, "in ") for i in report.inputs), *((o, "out") for o in report.outputs)]:
        line = f"  {what} {_doc(name)}: {_seen_type(node, kind) or 'shape unknown'}"
        if what == "out":
            consumers = [f"{_doc(n.name)} ({_doc(n.type)})" for n in network.nodes if name in n.inputs]
            public = [_doc(p) for p, v in network.outputs.items() if v == name]
            consumers += [f"output {p} of the network" for p in public]
            line += f", read by {', '.join(consumers) or 'no layer'}"
        lines.append(line)
    for i, blob in enumerate(node.blobs):
        lines.append(f"  blob {i}: {blob.dtype}{list(blob.shape)}")
    for key, value in values.items():
        lines.append(f"  {_doc(key)}: {_doc(_short(value))}")
    return lines


def _fields(nodes: Sequence[tuple[Node, NodeReport]], flat: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return an assignment for every param of any of the nodes, with its values in a comment."""
    names = list(dict.fromkeys(k for values in flat for k, v in values.items() if not _is_program(v)))
    names_taken = set(_RESERVED)
    lines = []
    for name in names:
        values = [v.get(name, _ABSENT) for v in flat]
        present = [v for v in values if v is not _ABSENT]
        attribute = _unused_name(_identifier(name), names_taken)
        if len(present) == len(values):
            line = f"self.{attribute} = params[{_quote(name)}]"
        else:
            line = f"self.{attribute} = params.get({_quote(name)})"
        shown = list(dict.fromkeys(map(_short, present)))
        note = ", ".join(shown[:6]) + (", ..." if len(shown) > 6 else "")
        if len(present) < len(values):
            note += f"; not in {len(values) - len(present)} of {plural(len(values), 'layer')}"
        lines.append(f"{line}  # {note}")
    blobs = next((n.blobs for n, _ in nodes if n.blobs), [])
    shapes = ", ".join(f"{b.dtype}{list(b.shape)}" for b in blobs)
    lines.append("self.blobs = blobs" + (f"  # {shapes}" if blobs else ""))
    return lines


def _forward(type_: str, nodes: Sequence[tuple[Node, NodeReport]]) -> list[str]:
    """Return the body of forward, which raises an error that says what is missing."""
    counts = {len(n.inputs) for n, _ in nodes}
    lines = []
    if len(counts) == 1 and 1 <= (number := counts.pop()) <= 8:
        lines.append("(x,) = inputs" if number == 1 else f"{', '.join(f'x{i}' for i in range(number))} = inputs")
        lines[-1] += "  # " + "; ".join(_types(*nodes[0]))
    outputs = sorted({len(n.outputs) for n, _ in nodes})
    several = " or ".join(map(str, outputs))
    arrays, them = ("array", "it") if outputs == [1] else ("arrays", "them")
    lines += [
        "raise anylayer.AnyLayerError(",
        f"    {_quote(f'the forward of layer type {type_!r} is not written yet: ')}",
        f"    {_quote(f'compute {several} {arrays} from its inputs in NumPy, and return a list with {them}')}",
        ")",
    ]
    return lines


def _types(node: Node, report: NodeReport) -> list[str]:
    return [str(_seen_type(node, kind)) if kind else "shape unknown" for _, kind in report.inputs]


def _test(test: str, name: str, nodes: Sequence[tuple[Node, NodeReport]]) -> str:
    """Return a test function that runs the first node's layer on seeded noise of its input shapes."""
    node, report = nodes[0]
    params = opencv_params(node.params, node.defaults)
    inner = "".join(f"\n        {_quote(k)}: {_literal(v)}," for k, v in params.items() if not _is_program(v))
    lines = [
        f"def {test}():",
        "    noise = np.random.default_rng(0)",
        f"    params = {{{inner}\n    }}" if inner else "    params = {}",
        f"    blobs = [{', '.join(_noise(b.shape) for b in node.blobs)}]",
    ]
    seen = [_seen_type(node, kind) for _, kind in report.inputs]
    shapes = [tuple(kind.shape) if kind else None for kind in seen]
    known_shapes = [s for s in shapes if s is not None]
    lines.append(f"    inputs = [{', '.join(_noise(s or (1, 3, 8, 8)) for s in shapes)}]")
    if len(known_shapes) < len(shapes):
        lines[-1] += "  # (1, 3, 8, 8) stands for an unknown shape"
    lines += [
        f"    outputs = {name}(params, blobs).forward(inputs)",
        f"    assert len(outputs) == {len(node.outputs)}",
        "    for output in outputs:",
        "        assert output.dtype == np.float32",
        "        assert np.isfinite(output).all()",
    ]
    return "\n".join(lines)


def _noise(shape: Sequence[int]) -> str:
    return f"noise.standard_normal({tuple(int(d) for d in shape)}, np.float32)"


def _quote(text: str) -> str:
    """Return a string literal in double quotes, with unprintable characters escaped."""
    escaped = {'"': '\\"', "\\": "\\\\"}
    return '"' + "".join(escaped.get(c) or (c if c.isprintable() else ascii(c)[1:-1]) for c in str(text)) + '"'


def _literal(value: object) -> str:
    """Return a value of a file as a Python literal."""
    if isinstance(value, Flag):
        return str(bool(value))
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_literal, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return f'float("{value}")'
    return repr(value)


def _is_program(value: object) -> bool:
    """Return whether a param is long text that no forward reads, such as the code of a program."""
    values = value if isinstance(value, (tuple, list)) else [value]
    return any(isinstance(v, str) and len(v) > _PROGRAM_LENGTH for v in values)


def _short(value: object) -> str:
    return shortened(_literal(value), _MAX_VALUE_LENGTH)


def _doc(text: object) -> str:
    """Return untrusted text for a docstring, with unprintable characters, backslashes and quotes replaced."""
    return "".join(c if c.isprintable() and c not in '\\"' else "?" if c != '"' else "'" for c in str(text))


def _identifier(text: str) -> str:
    name = re.sub(r"\W", "_", text, flags=re.ASCII)
    if not name or name[0].isdigit():
        name = f"Layer{name}"
    return f"{name}_" if keyword.iskeyword(name) or keyword.issoftkeyword(name) else name


def _unused_name(name: str, names_taken: set[str]) -> str:
    while name in names_taken:
        name += "_"
    names_taken.add(name)
    return name
