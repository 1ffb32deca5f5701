"""The Caffe writer: a network as a V2 prototxt, a caffemodel, and the caffe.proto that reads both.

base.py    Caffe's own messages         dialects.py  what each fork reads
schema.py  which message means what     layers.py    CaffeNet: layers before they are text or bytes
text.py    CaffeNet -> prototxt         binary.py    CaffeNet -> caffemodel
proto.py   CaffeNet -> caffe.proto      source.py    which way a network takes to a CaffeNet:
network.py a Caffe network's nodes
graph.py   operators: builder.py, by the forms in windows.py, products.py, elementwise.py, combining.py and
           arranging.py, which share affine.py; moves that are put off: views.py, settling.py
inference.py  fields that nothing declares   ends.py  names of outputs
opencv.py  the rules of OpenCV's reader      asking.py  OpenCV itself runs the file
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anylayer.errors import InputError, need
from anylayer.layer import Registry
from anylayer.source import Source, Written
from anylayer.writers.caffe.asking import ask_opencv
from anylayer.writers.caffe.binary import write_caffemodel
from anylayer.writers.caffe.dialects import dialect_of
from anylayer.writers.caffe.layers import CaffeNet
from anylayer.writers.caffe.proto import proto_text
from anylayer.writers.caffe.source import How, kept_types, made
from anylayer.writers.caffe.text import prototxt

WHAT = "a Caffe network (.prototxt)"
SUFFIXES = (".prototxt",)
OPTIONS = frozenset({"keep", "batch", "dialect", "fold", "blog_compat"})
RUNS = "numpy"
LAYOUT = "NCHW"
"""Caffe gives arrays of rank 4 to its layers in this order alone."""


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
    """Write `path` (a prototxt), the .caffemodel and the .proto beside it, named alike.

    dialect: the fork of Caffe that is to read it. Without it a network from Caffe keeps its own, where it has one,
    and any other is written for "bvlc". keep: layers of these types are written as they are, also where the
    dialect lacks them. fold: batch normalisation goes into the weights before it. blog_compat: its epsilon is
    added to the variance and Caffe's own, 1e-5, comes on top, as a well known recipe for Keras has it (the result
    is off by up to half a percent).

    Raises LayerError for all that the dialect cannot express.
    """
    need(
        source.batch is None,
        "Caffe's files have fixed sizes: give batch a number",
        InputError,
    )
    need(not (fold and blog_compat), "fold and blog_compat exclude each other", InputError)
    own = source.network.dialect if source.network.format == "caffe" else "bvlc"
    chosen = dialect_of(dialect or own)
    result = made(source, How(chosen, frozenset(keep), fold, blog_compat))
    files = save(result.net, path)
    notes = ["batch normalisation is the recipe's, not the source's (blog_compat)"] if blog_compat else []
    for name, order in result.transposed.items():
        notes.append(f"'{name}' lies {_letters(order)} in the file: the source's array.transpose{order}")
    unknown = kept_types(source).difference(source.user_types, Registry.of("caffe").types())
    unrun = f"what {', '.join(sorted(unknown))} computes is the target's affair" if unknown else ""
    if blog_compat:
        unrun = unrun or "blog_compat changes the numbers"
    reading: dict[str, Any] = {"dialect": chosen.name or None}
    if source.network.fields:
        reading["proto"] = files[0]
    given = {layer.name: layer.given for layer in result.net.layers if layer.given is not None}
    for ours, theirs in result.outputs.items():
        notes.append(f"output '{ours}' is called '{theirs}' in the file: an input has its name")
    done = Written(files, notes, transposed=result.transposed, outputs=result.outputs, unrun=unrun)
    done.reading, done.params = reading, given
    if chosen.name == "opencv" and not unrun:
        ask_opencv(done, result.net, source)
    return done


def _letters(order: tuple[int, ...]) -> str:
    return "".join("NHWC"[i] for i in order) if len(order) == 4 else str(order)


def save(net: CaffeNet, path: Path) -> list[Path]:
    """Write the three files; the prototxt is the last."""
    weights, proto = path.with_suffix(".caffemodel"), path.with_suffix(".proto")
    proto.write_text(proto_text(net), encoding="utf-8")
    with weights.open("wb") as handle:
        write_caffemodel(net, handle)
    path.write_text(prototxt(net), encoding="utf-8")
    return [proto, weights, path]
