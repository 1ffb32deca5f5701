"""caffe.draw: a picture of a network, drawn by Graphviz (BVLC/caffe python/caffe/draw.py).

The picture is described in Graphviz' language DOT; its program `dot` converts it to other formats.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from anylayer.caffe.proto import caffe_pb2
from anylayer.errors import FileError, InputError, need
from anylayer.libraries.whole import write_whole

_DIRECTIONS = ("LR", "TB", "BT", "RL")
_BLOB = "shape=octagon, style=filled, fillcolor=lightgray"
_LAYER = "shape=box, style=filled, fillcolor=lightblue"
_ACTIVATION = "shape=box, style=filled, fillcolor=palegreen"
_MAX_SECONDS = 120  # of one run of dot


def draw_net(
    caffe_net: Any, rankdir: str = "LR", ext: str = "png", phase: int | None = None, display_lrm: bool = False
) -> bytes:
    """Return a picture of a NetParameter of caffe_pb2 as the bytes of a file.

    rankdir: the direction of the graph, LR, TB, BT or RL. ext: the format, "dot", or one that Graphviz writes.
    phase: leave out the layers that are not part of this phase. display_lrm: name the learning rates that
    layers state. Raises FileError where Graphviz is not installed.
    """
    text = dot(caffe_net, rankdir, phase, display_lrm).encode()
    if ext in ("dot", "raw"):
        return text
    need(ext.isalnum(), f"a format is letters and digits, got {ext!r}", InputError)
    program = shutil.which("dot")
    if program is None:
        raise FileError(f"to draw .{ext} files install Graphviz, for example: apt install graphviz")
    process = subprocess.run(
        [program, f"-T{ext}"], input=text, capture_output=True, timeout=_MAX_SECONDS, check=False
    )
    need(process.returncode == 0, f"Graphviz: {process.stderr.decode(errors='replace').strip()}", FileError)
    return process.stdout


def draw_net_to_file(
    caffe_net: Any, filename: str | Path, rankdir: str = "LR", phase: int | None = None, display_lrm: bool = False
) -> None:
    """Write a picture of a network; the suffix of the file decides the format. See draw_net."""
    path = Path(filename)
    picture = draw_net(caffe_net, rankdir, path.suffix[1:], phase, display_lrm)
    write_whole(path, lambda file: file.write(picture))


def dot(caffe_net: Any, rankdir: str = "LR", phase: int | None = None, display_lrm: bool = False) -> str:
    """Return a network as a graph in DOT."""
    need(rankdir in _DIRECTIONS, f"rankdir must be one of {', '.join(_DIRECTIONS)}, got {rankdir!r}", InputError)
    layers = [layer for layer in caffe_net.layer or caffe_net.layers if phase is None or _takes_part(layer, phase)]
    lines = [f"digraph {_quote(caffe_net.name or 'Net')} {{", f"  rankdir={rankdir};"]
    blobs: dict[str, None] = dict.fromkeys(caffe_net.input)
    for i, layer in enumerate(layers):
        in_place = list(layer.bottom) == list(layer.top)
        style = _ACTIVATION if in_place else _LAYER
        lines.append(f"  layer{i} [label={_quote(_label(layer, display_lrm))}, {style}];")
        blobs.update(dict.fromkeys([*layer.bottom, *layer.top]))
    numbers = {name: i for i, name in enumerate(blobs)}
    lines += [f"  blob{i} [label={_quote(name)}, {_BLOB}];" for name, i in numbers.items()]
    lines += [line for i, layer in enumerate(layers) for line in _edges(i, layer, numbers)]
    return "\n".join([*lines, "}"]) + "\n"


def _takes_part(layer: Any, phase: int) -> bool:
    """Return whether a layer's rules on phases hold."""
    included = [rule.phase == phase for rule in layer.include if rule.HasField("phase")]
    excluded = [rule.phase == phase for rule in layer.exclude if rule.HasField("phase")]
    return (any(included) or not included) and not any(excluded)


def _label(layer: Any, display_lrm: bool) -> str:
    kind = layer.type
    if not isinstance(kind, str):  # an old layer, whose type is a number
        kind = caffe_pb2.V1LayerParameter.LayerType.Name(kind)
    rates = ", ".join(f"{param.lr_mult:g}" for param in layer.param) if display_lrm else ""
    return f"{layer.name}\n({kind})" + (f"\nlr mult: {rates}" if rates else "")


def _edges(index: int, layer: Any, numbers: dict[str, int]) -> Iterator[str]:
    for bottom in layer.bottom:
        yield f"  blob{numbers[bottom]} -> layer{index};"
    for top in layer.top:
        yield f"  layer{index} -> blob{numbers[top]};"


def _quote(text: str) -> str:
    r"""Return a text as a string of DOT. A line break becomes \n, which Graphviz centers."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
