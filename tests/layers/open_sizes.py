"""python -m tests.layers.open_sizes: write docs/open-sizes.md, which sizes each built-in layer leaves open.

Each layer is tried on inputs of its own tests. The sizes are opened one after the other, and each is kept that the
layer allows together with those before it. The graph is compared with the layer in NumPy at a size that was not
traced.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from tools.pages import markdown_table

from anylayer.compile.choices import verified_sizes
from anylayer.compile.open import trace_open
from anylayer.compile.whole import whole
from anylayer.errors import AnyLayerError, EngineError
from anylayer.graph.expressions import Expression, constant, symbol
from anylayer.graph.open_sizes import evaluate, parse_sizes
from anylayer.layer import Registry
from anylayer.network import MAX_VALUES, TensorType
from anylayer.numerics import DEEP_TOLERANCE
from anylayer.testing import assert_same, run_graph
from tests.layers.open_samples import FORMATS, Sample, samples

PAGE = Path(__file__).resolve().parents[2] / "docs" / "open-sizes.md"
ALL = "all"
ONE = "all, in ONNX Runtime only"
"""All sizes are open, but OpenVINO runs the layer at no size."""
_HEAD = """# Layers with open sizes

This page lists which sizes each built-in layer leaves open: see [files with open sizes](convert.md#open-sizes).
It is written by `python -m tests.layers.open_sizes`, which tries each layer on two inputs of its own tests. The
sizes N, C, H and W are opened one after the other. A second size of this kind, of another input, is H' or N'. P
is a size of which others are multiples, such as the coordinates of boxes. The number of channels (C, or the last
size) is open where the layer allows it, and is not counted otherwise. A size that is not open alone is tried
together with another of the same length (`H = W`), as a multiple (`2*H`), and for one input only. The graph is
then compared with NumPy at a size that was not traced.

A layer in the table may leave more sizes open with other params or inputs: "the height must be 4" comes from the
other sizes of the test, and H is open in a network in which the other sizes follow H. Inputs that broadcast or
multiply (Add, MatMul) are an example: sizes that must agree need the same name.

The graphs run in ONNX Runtime, and those of ONNX and OpenVINO IR in OpenVINO as well, unless OpenVINO does not run
the layer of the test at its own, fixed sizes either. ONNX's operators are tried on ONNX's own tests, in which
weights, axes and other integer settings are constants. A number of elements that depends on data (Compress,
NonZero, Unique, NMS) is known only when the network runs; the sizes of the inputs are open all the same.
"""
_RUNTIMES = (("onnxruntime", "ONNX Runtime"), ("openvino", "OpenVINO"))
"""The engines that run the graphs, and their names."""
_BOTH = ("onnx", "openvino")
"""The formats whose graphs run on both."""
_TRIED = 2
"""The number of inputs on which a layer is tried: those with the most axes and values."""
_LETTERS = {1: "K", 2: "NC", 3: "NCL", 4: "NCHW", 5: "NCDHW"}
_LETTERS_OF_CHANNELS_LAST = {1: "K", 2: "NC", 3: "NLC", 4: "NHWC", 5: "NDHWC"}
_COUPLED = 4
"""Sizes from this one on may be multiples of one number, such as the coordinates of all boxes."""
_MULTIPLES = 2
"""The largest number of multiples that are tried for a size."""

Place = tuple[int, int]
Names = Mapping[str, Mapping[Place, Expression]]


@dataclass(frozen=True, slots=True)
class Found:
    """The names of a case's sizes that are open, and of the others with the reason."""

    open: tuple[str, ...]
    fixed: Mapping[str, str]


def _multiples(case: Sample, several: bool) -> dict[Place, Expression]:
    """Return the sizes of flat inputs that are multiples of one number P, such as the coordinates of all boxes.

    several: whether there may be other inputs besides.
    """
    flat = [i for i, x in enumerate(case.inputs) if math.prod(x.shape[3:]) == 1]
    long = {(i, axis): d for i in flat for axis, d in enumerate(case.inputs[i].shape) if axis and d >= _COUPLED}
    step = math.gcd(*long.values()) if len(flat) > 1 and (several or len(flat) == len(case.inputs)) else 1
    return {place: constant(d // step) * symbol("P") for place, d in long.items()} if step > 1 else {}


def _names(case: Sample) -> Names:
    """Return the sizes that may be open: for each name, the places that have it and the sizes there.

    Sizes of the same axis and length share a name, as they do in networks.
    """
    multiples = _multiples(case, several=False)
    found: dict[str, dict[Place, Expression]] = {}
    letters = _LETTERS_OF_CHANNELS_LAST if case.is_channels_last else _LETTERS
    for i, x in enumerate(case.inputs):
        for axis, d in enumerate(x.shape):
            letter = letters[x.ndim][axis] if x.ndim in letters else f"D{axis}" if axis else "N"
            if (i, axis) in multiples:
                found["P"] = multiples
            elif d > 1 or (axis == 0 and all(y.shape[:1] == (1,) for y in case.inputs)):
                same = next((n for n in found if n[0] == letter and _length(case, found[n]) == d), None)
                name = same or letter + "'" * sum(n[0] == letter for n in found)
                found.setdefault(name, {})[i, axis] = _symbol(name)
    return found


def _symbol(name: str) -> Expression:
    return symbol(name.replace("'", "2"))


def _forms(case: Sample, names: Names, name: str) -> Iterator[tuple[str, Names]]:
    """Yield the ways to open a size, each with its text and the names after it.

    They are: the size alone; the same name for another size of this length; a multiple; one input of several that
    share the name; sizes of several inputs that are multiples of one number.
    """
    own = names[name]
    yield name, names
    if name == "P":
        return
    length = _length(case, own)
    for other, places in names.items():
        if other not in (name, "P") and _length(case, places) == length:
            merged = dict.fromkeys((*places, *own), next(iter(places.values())))
            yield f"{name} = {other}", {**names, name: merged, other: merged}
    for times in [t for t in range(2, length + 1) if length % t == 0][:_MULTIPLES]:
        yield f"{times}*{name}", {**names, name: dict.fromkeys(own, constant(times) * _symbol(name))}
    for place in own if len(own) > 1 else ():
        yield f"{name} of input {place[0]}", {**names, name: {place: own[place]}}
    multiples = _multiples(case, several=True)
    if {*own} <= {*multiples} and "P" not in names:
        yield f"{name} = {multiples[next(iter(own))]}", {**names, name: multiples}


def _length(case: Sample, places: Mapping[Place, Expression]) -> int:
    i, axis = next(iter(places))
    return case.inputs[i].shape[axis]


def _is_channel(case: Sample, places: Mapping[Place, Expression]) -> bool:
    """Return whether a name is the number of channels, or of values per sample, everywhere."""
    own = -1 if case.is_channels_last else 1
    ranks = [(case.inputs[i].ndim, axis) for i, axis in places]
    return all((axis in (1, n - 1) and axis and n != 4) or axis == own % n for n, axis in ranks)


def check(case: Sample, opened: Sequence[Mapping[Place, Expression]], count: int = 1) -> None:
    """Raise AnyLayerError or AssertionError where the layer does not leave these sizes open.

    count: at how many sizes that were not traced the graph is compared.
    """
    shapes: dict[str, list[int | Expression]] = {n: list(x.shape) for n, x in zip(case.names, case.inputs)}
    for places in opened:
        for (i, axis), e in places.items():
            shapes[case.names[i]][axis] = e
    sizes = parse_sizes(shapes)
    if sizes is None:
        return
    network, definitions = case.net.network, case.net.definitions
    types = {n: TensorType.of(x.shape, x.dtype) for n, x in zip(case.names, case.inputs)}
    traces = trace_open(network, definitions, types, sizes, network.outputs)
    graph = traces.source().graph
    found = verified_sizes(traces.sizes)
    for symbols in (found[1:] + found[:1])[:count]:
        kinds = [t for t in traces.sizes.types(types, symbols).values() if t is not None]
        arrays = [_resized(x, t.shape) for x, t in zip(case.inputs, kinds)]
        model = case.net.compile("numpy", shapes=dict(zip(case.names, (t.shape for t in kinds))))
        want = model(dict(zip(case.names, arrays)))
        for engine, name in _runtimes(case):
            try:
                results = run_graph(graph, arrays, engine)
            except EngineError as error:
                lines = [line.strip() for line in str(error).splitlines() if line.strip()]
                why = next((line for line in lines if "onver" in line), lines[-1])
                raise EngineError(f"{name} refuses the graph: {why}") from error
            for got, array in zip(results, want.values()):
                assert_same(got, np.asarray(array), name, max(case.tolerance or 0.0, DEEP_TOLERANCE))


@cache
def _runtimes(case: Sample) -> Sequence[tuple[str, str]]:
    """Return the engines that a sample is tried on: without OpenVINO where it does not run the fixed sizes."""
    if case.net.network.format not in _BOTH:
        return _RUNTIMES[:1]
    network, definitions = case.net.network, case.net.definitions
    types = {n: TensorType.of(x.shape, x.dtype) for n, x in zip(case.names, case.inputs)}
    try:
        graph = whole(network, definitions, types, network.outputs).graph
        run_graph(graph, case.inputs, "openvino")
    except EngineError:
        return _RUNTIMES[:1]
    except AnyLayerError:  # it cannot be traced
        pass
    return _RUNTIMES


def _resized(x: Any, shape: Sequence[int]) -> Any:
    """Return the values of an array at another shape: along each axis, they come again and again."""
    for axis, d in enumerate(shape):
        x = x.take(np.arange(d) % x.shape[axis], axis)
    return np.ascontiguousarray(x)


def sizes_of(case: Sample, count: int = 1) -> Found:
    """Return which sizes of a case are open. count: at how many sizes all of them are compared in the end."""
    names = _names(case)
    opened: dict[str, str] = {}
    fixed: dict[str, str] = {}
    for name in list(names):
        if any(names[name] is names[other] for other in opened):
            continue
        for text, changed in _forms(case, names, name):
            try:
                check(case, [changed[n] for n in [*opened, name]])
            except (AnyLayerError, AssertionError, ValueError) as error:
                if not _is_channel(case, names[name]):
                    fixed.setdefault(name, getattr(error, "message", str(error)))
                continue
            opened[name], names = text, changed
            fixed.pop(name, None)
            break
    if count > 1:
        check(case, [names[name] for name in opened], count)
    return Found(tuple(opened.values()), fixed)


@cache
def tried(format: str) -> dict[str, list[Sample]]:
    """Return the samples on which each layer type of a format is tried."""
    found: dict[str, list[Sample]] = {}
    for sample in samples(format):
        if sample.inputs and all(x.size for x in sample.inputs):
            found.setdefault(sample.type, []).append(sample)

    def weight(sample: Sample) -> tuple[int, int]:
        return sum(x.ndim for x in sample.inputs), sum(x.size for x in sample.inputs)

    return {t: sorted(own, key=weight, reverse=True)[:_TRIED] for t, own in sorted(found.items(), key=_by_name)}


def _by_name(item: tuple[str, Any]) -> str:
    return item[0].lower()


def row(own: Sequence[Sample]) -> tuple[str, str]:
    """Return what a layer leaves open, and why other sizes are fixed, as text."""
    for case in own:
        found = sizes_of(case)
        if found.fixed:
            names = ", ".join(found.open) or "none"
            reasons: dict[str, list[str]] = {}
            for name, why in found.fixed.items():
                reasons.setdefault(_short(why), []).append(name)
            return names, "; ".join(f"{', '.join(own)}: {why}" for why, own in reasons.items())
    one = own[0].net.network.format in _BOTH and any(len(_runtimes(case)) == 1 for case in own)
    return ONE if one else ALL, ""


_NUMBERED = re.compile(r"(?<=')(\w+?)_\d+(?=')|(?<=\bsize )(range)\d+")
"""The names of nodes and sizes with numbers, which differ from run to run."""
_CHECK = re.compile(r"Check '\w+' failed at .*")
"""OpenVINO's message for an operator that it cannot convert."""
_PLACE = re.compile(r" ?\(?\b\w+\.py:\d+\)?:?| \(layer '[^']*' \(\w+\)\)")


def _short(why: str) -> str:
    """Return the part of a message that says what is not possible, without places and remedies."""
    for start in ("which a file cannot hold: ", "the layers allow only those of the trace "):
        _, found, rest = why.partition(start)
        why = rest if found else why
    text = _PLACE.sub("", _CHECK.sub("it does not support an operator", why).split("\n")[0].split(". ")[0])
    text = text.partition("): ")[2] or text if text.startswith("(") else text
    text = sentences(text.split("; ")) or text[:200].replace("node 'layer1' ", "").strip()
    return _NUMBERED.sub(lambda found: found[1] or found[2], text)


_NOUNS = {"N": "batch size", "C": "number of channels", "D": "depth", "H": "height", "W": "width", "L": "length"}
_CONDITION = re.compile(r"(.+?) (==|!=|<=|>=|<|>) (.+)")
_RELATIONS = {"==": "equal", "!=": "differ from", "<=": "be at most", ">=": "be at least"}
_RELATIONS |= {"<": "be less than", ">": "be more than"}
_MAX_SIZE = 512
"""The largest size at which conditions are evaluated."""


def sentences(conditions: Sequence[str]) -> str:
    """Return conditions on sizes, such as "2*(H//2) == H", in words, or "" where the text is something else.

    All conditions on one size become one sentence. The limit of memory is left out if there are others.
    """
    if not all(_CONDITION.fullmatch(c) and evaluate(c, _Sizes()) is not None for c in conditions):
        return ""
    by_size: dict[tuple[str, ...], list[str]] = {}
    for c in conditions:
        by_size.setdefault(tuple(sorted({*re.findall(r"\b[A-Z]\d*\b", c)})), []).append(c)
    found = []
    for symbols, own in by_size.items():
        if len(symbols) == 1:
            allowed = [d for d in range(1, _MAX_SIZE) if all(evaluate(c, {symbols[0]: d}) for c in own)]
            rule = _values(allowed)
            if rule:
                found.append(f"the {_noun(symbols[0])} must {rule}")
                continue
        found += [
            f"{_primed(m[1])} must {_RELATIONS[m[2]]} {_primed(m[3])}"
            for m in map(_CONDITION.fullmatch, own)
            if m and str(MAX_VALUES) not in m[0]
        ]
    return ", and ".join(found) or "the arrays become too large"


class _Sizes(dict[str, int]):
    """Any size, whose value is 1."""

    def __missing__(self, name: str) -> int:
        return 1


def _values(allowed: Sequence[int]) -> str:
    """Return what a size must be, if its values up to _MAX_SIZE are these, or "" where this has no short form."""
    if not allowed:
        return ""
    first, last = allowed[0], allowed[-1]
    step = allowed[1] - first if len(allowed) > 1 else 1
    if list(allowed) != list(range(first, last + 1, step)):
        return ""
    open_end = last + step >= _MAX_SIZE
    if open_end and first == step:
        return f"be a multiple of {step}" if step > 1 else ""
    if step > 1:
        return ""
    return f"be at least {first}" if open_end else f"be {first}" if first == last else f"lie in {first}..{last}"


def _noun(symbol_: str) -> str:
    """Return what a symbol stands for: "height", or "height H'" of another input."""
    noun = _NOUNS.get(symbol_[0], "size")
    return noun if len(symbol_) == 1 and symbol_ in _NOUNS else f"{noun} {_primed(symbol_)}"


def _primed(text: str) -> str:
    """Return the symbols of an expression as the page spells them: H' for H2."""
    return re.sub(r"\b([A-Z])(2+)\b", lambda m: m[1] + "'" * len(m[2]), text)


def page() -> str:
    """Return docs/open-sizes.md."""
    parts = [_HEAD]
    for format, title in FORMATS.items():
        found = {t: row(own) for t, own in tried(format).items()}
        every = ", ".join(f"`{t}`" for t, (names, _) in found.items() if names == ALL)
        one = ", ".join(f"`{t}`" for t, (names, _) in found.items() if names == ONE)
        one = (
            f"All sizes are open in ONNX Runtime; OpenVINO does not run the layer of the test: {one}.\n\n"
            if one
            else ""
        )
        rows = [(f"`{t}`", *cells) for t, cells in found.items() if cells[0] not in (ALL, ONE)]
        table = markdown_table(("layer", "open", "fixed in the layer's tests, and the condition or reason"), rows)
        rest = sorted({*Registry.of(format).types()} - {*found}) if format in _BOTH else []
        names = ", ".join(f"`{t}`" for t in rest)
        untried = f"Not tried, because no test has this operator alone, on arrays: {names}.\n"
        parts.append(
            f"## {title}\n\nAll sizes are open: {every}.\n\n{one}{table}\n" + (f"\n{untried}" if rest else "")
        )
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
