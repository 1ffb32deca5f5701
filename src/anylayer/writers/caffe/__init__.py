"""Write a network for Caffe: a V2 prototxt, a caffemodel, and the caffe.proto that describes both.

What becomes which layer:
    from_source.py  each node becomes its own layer, or the layers of its operators
    from_nodes.py   a node that was read from Caffe -> its layer
    from_graph.py   a graph of ONNX operators -> layers, by builder.py and the tables of lowerings in windows.py,
                    products.py, elementwise.py, normalization.py and data_movement.py
    views.py        steps that are deferred until a layer needs their result; materialize.py adds layers for them
    affine.py       adds layers that multiply and add
    ascend_rules.py fuses operators that one layer of Ascend's Caffe computes
    outputs.py      names of outputs
What the layers are, before they are text or bytes:
    layers.py       CaffeNet and CaffeLayer
    dialects.py     which layer types and fields each fork of Caffe reads
    messages.py     Caffe's own protobuf messages
    schema.py       the message class and number of each parameter
Files:
    caffemodel.py   CaffeNet -> prototxt and caffemodel, by anylayer.protobuf
    proto.py        CaffeNet -> caffe.proto
RKNN:
    rknn_rules.py    what RKNN's Caffe reader refuses or computes differently
OpenCV:
    opencv_rules.py    what OpenCV's Caffe reader reads differently
    opencv_runtime.py  lets OpenCV run the file
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anylayer.errors import InputError, need
from anylayer.layer import Registry
from anylayer.source import Source, Written
from anylayer.writers._target import renamed_output_notes
from anylayer.writers.caffe import rknn_rules
from anylayer.writers.caffe.caffemodel import prototxt, write_caffemodel
from anylayer.writers.caffe.dialects import dialect_of
from anylayer.writers.caffe.from_source import CaffeWriteOptions, kept_types, net_from_source
from anylayer.writers.caffe.layers import CaffeNet
from anylayer.writers.caffe.opencv_runtime import add_opencv_runtime
from anylayer.writers.caffe.proto import proto_text

WHAT = "a Caffe network (.prototxt)"
SUFFIXES = (".prototxt",)
OPTIONS = frozenset({"keep", "batch", "dialect", "fold", "blog_compat"})
RUNS = "numpy"
LAYOUT = "NCHW"
"""Caffe passes arrays of rank 4 to its layers in this order only."""


def write(
    source: Source,
    path: Path,
    *,
    dialect: str | None = None,
    keep: Sequence[str] = (),
    batch: object = None,
    fold: bool = False,
    blog_compat: bool = False,
) -> Written:
    """Write `path` (a prototxt), and a .caffemodel and a .proto with the same stem beside it.

    dialect: the fork of Caffe that will read the files. By default a network from Caffe keeps its dialect, and any
        other network is written for "bvlc".
    keep: write layers of these types unchanged, even if the dialect lacks them.
    fold: fold batch normalization into the weights of the layer before it.
    blog_compat: add the epsilon of batch normalization to the stored variance. Caffe adds its own, 1e-5, once
        more. A well-known recipe for Keras does this; its results differ by up to 0.5 percent.

    Raises LayerError for layers that the dialect cannot express.
    """
    need(source.sizes is None, "Caffe's files have fixed sizes: give each size a number", InputError)
    need(not (fold and blog_compat), "fold and blog_compat exclude each other", InputError)
    own = source.network.dialect if source.network.format == "caffe" else "bvlc"
    chosen = dialect_of(dialect or own)
    result = net_from_source(source, CaffeWriteOptions(chosen, frozenset(keep), fold, blog_compat))
    if chosen.name == "rknn":
        rknn_rules.need_right(result.net, source)
    files = save(result.net, path)
    notes = (
        ["batch normalization differs from the source: its epsilon is added twice (blog_compat)"]
        if blog_compat
        else []
    )
    for name, order in result.transposed.items():
        notes.append(f"'{name}' has the layout {_letters(order)} in the file: the source's array.transpose{order}")
    unknown = kept_types(source).difference(source.user_types, Registry.of("caffe").types())
    unrun = f"only the target knows what {', '.join(sorted(unknown))} computes" if unknown else ""
    if blog_compat:
        unrun = unrun or "blog_compat changes the numbers"
    reading: dict[str, Any] = {"dialect": chosen.name or None}
    if source.network.fields:
        reading["proto"] = files[0]
    given = {layer.name: layer.given for layer in result.net.layers if layer.given is not None}
    notes += renamed_output_notes(result.outputs)
    done = Written(files, notes, transposed=result.transposed, outputs=result.outputs, unrun=unrun)
    done.reading, done.params = reading, given
    supported = chosen.only - source.user_types
    lacking = ", ".join(dict.fromkeys(n.type for n in result.net.layers if n.type not in supported))
    if chosen.name == "opencv":
        if not unrun:
            add_opencv_runtime(done, result.net, source, lacking)
    elif chosen.only and lacking:
        done.notes.append(f"'{chosen.name}' has no layer {lacking}: define it in the program that reads the file")
    return done


def _letters(order: tuple[int, ...]) -> str:
    """Return the layout of a permuted array (N, H, W, C) as letters; another rank as numbers."""
    return "".join("NHWC"[i] for i in order) if len(order) == 4 else str(order)


def save(net: CaffeNet, path: Path) -> list[Path]:
    """Write the three files and return them, the prototxt last."""
    weights, proto = path.with_suffix(".caffemodel"), path.with_suffix(".proto")
    proto.write_text(proto_text(net), encoding="utf-8")
    with weights.open("wb") as handle:
        write_caffemodel(net, handle)
    path.write_text(prototxt(net), encoding="utf-8")
    return [proto, weights, path]
