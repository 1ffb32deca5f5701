"""OpenCV in Python: a module that registers your NumPy classes in cv2, and a test that runs them there."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.errors import LayerError, at, given, need, wording
from anylayer.folders import fill, template
from anylayer.generators import Expected, Project
from anylayer.generators._cases import Case, cases_of, chosen_types
from anylayer.generators._testing import COMPARED, archive
from anylayer.generators.opencv_python.extract import Extract
from anylayer.layer import Bound
from anylayer.layer.opencv import opencv_params
from anylayer.libraries.onnx import helper, numpy_helper
from anylayer.network import Flag
from anylayer.source import Source

WHAT = "an OpenCV module in Python"
OPTIONS = ("layer",)

_FLOAT = np.dtype(np.float32)
_OPENCV4 = "OpenCV 4 (pip install 'opencv-python-headless<5')"
Entry = tuple[str, bool, list[dict[str, Any]], bool]
"""A layer type: the name of its class, whether it writes to its inputs, the params of its nodes, and whether all
nodes have weights."""


def generate(source: Source, expected: Expected, layer: Sequence[str] = ()) -> Project:
    """Return a project: numpy_layers.py with the classes, test_numpy_layers.py, one model per case and its data.

    layer: the layer types to write; by default all types that the user defines.

    Raises LayerError for a layer that OpenCV cannot call, or whose class needs more than NumPy.
    """
    cases = cases_of(source, expected, chosen_types(source, layer))
    out, entries = Extract(), dict[str, Entry]()
    for case in cases:
        with at(case.node.place):
            bound = _callable(case)
            name = out.add(bound.definition)
            params = opencv_params(case.node.params, case.node.defaults)
            param_sets, weights = entries.get(case.node.type, (name, bound.writes, [], True))[2:]
            param_sets += [params] if params not in param_sets else []
            entries[case.node.type] = name, bound.writes, param_sets, weights and bool(case.node.blobs)
    files: dict[str, str | Sequence[bytes | memoryview]] = {
        "numpy_layers.py": _module(out, entries),
        "test_numpy_layers.py": fill(
            template(__file__, "test_numpy_layers.py.in"),
            tolerance=repr(expected.tolerance),
            cases=literal([(case.node.type, _why_not_opencv5(case), case.floors) for case in cases]),
            compared=COMPARED,
        ),
        "test_data.npz": [archive("case", [(case.inputs, case.outputs) for case in cases])],
    }
    files.update({f"case_{i}.onnx": [_model(case)] for i, case in enumerate(cases)})
    return Project(files, [[sys.executable, "-B", "test_numpy_layers.py"]], _missing(cases))


def _callable(case: Case) -> Bound:
    """Return the node with its class. Raises LayerError where OpenCV cannot call it."""
    bound, node = case.traced.bound, case.node
    if bound is None or bound.definition.built_in or bound.definition.kernel is not None:
        remedy = wording("layers=[...]", "-l layers.py")
        raise LayerError(f"{node.type} has no class of yours in NumPy; give one: {remedy}")
    for x in (*case.inputs, *case.outputs):
        dtype = given(x, "an input is absent, which OpenCV cannot express").dtype
        need(dtype == _FLOAT, f"OpenCV passes only float32 to layers, and an input or output is {dtype}")
    need(
        node.layout != "NHWC" or bound.order is not None,
        "the class expects arrays in NHWC, and OpenCV passes NCHW",
    )
    if bound.definition.typed:
        _need_plain_fields(bound)
    return bound


def _need_plain_fields(bound: Bound) -> None:
    """Raise LayerError for declared fields whose values do not follow from the params alone."""
    cls = bound.definition.layer_class
    need(not cls.also, f"its class reads several messages ({', '.join(cls.also)})")
    for name, declared in cls.fields.items():
        need(isinstance(declared.kind, str), f"field '{name}' is an enum or a message, not a number or text")
        need(not declared.dialects, f"field '{name}' has defaults by dialect; write one default")


def literal(value: Any) -> str:
    """Return a param as Python source code, in ASCII."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, tuple):
        return "(" + "".join(f"{literal(v)}, " for v in value) + ")"
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, (bool, Flag)):
        return repr(bool(value))
    if isinstance(value, float):
        return repr(float(value)) if math.isfinite(value) else f'float("{value}")'
    if isinstance(value, np.ndarray):
        return f"np.array({literal(value.tolist())}, np.{value.dtype.name})"
    need(isinstance(value, (str, int)), f"a param of type {type(value).__name__} cannot be written as source code")
    return ascii(str(value) if isinstance(value, str) else int(value))


def _module(out: Extract, entries: Mapping[str, Entry]) -> str:
    """Return the generated module."""
    imports, sections = {"import cv2", *out.imports}, []
    for name in ("typed.py", "guard.py") if out.uses else ("guard.py",):
        text = Path(__file__).with_name(name).read_text("utf-8")
        lines = text.partition('"""\n\n')[2].splitlines()
        imports.update(line for line in lines if line.startswith(_IMPORTS))
        sections.append("\n".join(x for x in lines if not x.startswith((*_IMPORTS, "cv2: "))).strip())
    *typed, guard = sections
    table = [
        f"    _Entry({type_!a}, {name}, {literal(params)}, {writes}, {weights}),"
        for type_, (name, writes, params, weights) in entries.items()
    ]
    guard = guard.replace("= []  # GENERATED: the table", "\n".join(["= [", *table, "]"]), 1)
    aliases = [line for line in out.imports if not line.startswith(_IMPORTS)]
    imports |= {"import types"} if any("types." in line for line in aliases) else set()
    imported = sorted(line for line in imports if line.startswith(_IMPORTS) and "__future__" not in line)
    code = "\n\n\n".join(["\n".join(imported), *typed, *aliases, out.text(), guard])
    return fill(template(__file__, "numpy_layers.py.in"), code=code)


_IMPORTS = ("import ", "from ")


def _model(case: Case) -> bytes:
    """Return an ONNX model of one node: `case.onnx` has the type and params of the layer, and its blobs."""
    node = case.node
    inputs, outputs = ([f"{w}{i}" for i in range(len(a))] for w, a in (("x", case.inputs), ("y", case.outputs)))
    blobs = [numpy_helper.from_array(np.array(b, np.float32), f"b{i}") for i, b in enumerate(node.blobs)]
    params = opencv_params(node.params, node.defaults)
    model_node = helper.make_node(node.type, [*inputs, *(b.name for b in blobs)], outputs, domain=_DOMAIN)
    for name, value in params.items():
        if not (isinstance(value, tuple) and (not value or isinstance(value[0], str))):
            plain = int(value) if isinstance(value, Flag) else value
            model_node.attribute.append(helper.make_attribute(name, plain))
    input_infos, gives = (
        [helper.make_tensor_value_info(name, 1, a.shape) for name, a in zip(names, arrays) if a is not None]
        for names, arrays in ((inputs, case.inputs), (outputs, case.outputs))
    )
    graph = helper.make_graph([model_node], "case", input_infos, gives, initializer=blobs)
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid(_DOMAIN, 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


_DOMAIN = "numpy"


def _missing(cases: Sequence[Case]) -> str:
    """Return what must be installed for the test: cv2, or cv2 of version 4 if OpenCV 5 can run none of the cases.
    "" if nothing is missing.
    """
    if importlib.util.find_spec("cv2") is None:
        return _OPENCV4
    from anylayer.libraries import opencv

    return "" if opencv.VERSION < "5" or not all(map(_why_not_opencv5, cases)) else _OPENCV4


def _why_not_opencv5(case: Case) -> str:
    """Return why OpenCV 5 cannot run a layer in Python; "" if it can."""
    if case.node.blobs:
        return "OpenCV 5 passes no weights to layers in Python"
    shapes = [None if x is None else x.shape for x in case.inputs]
    suits = [y.shape for y in case.outputs] == shapes[:1] * len(shapes)
    return "" if suits else "OpenCV 5 gives each output the shape of input 0"
