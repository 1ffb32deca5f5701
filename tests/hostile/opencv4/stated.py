"""The differences between OpenCV 4.14 and anylayer in dialect opencv that docs/opencv.md states: the rows of its
table. Each was found by `python -m tests.hostile.opencv4`, and excuses only the layers that it describes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .grammar import Drawn, Made, Shape, Word
from .judge import ANYLAYER, DIFFERS, OPENCV, Verdict

Fits = Callable[[Made, Sequence[Shape]], Any]


def one(type_: str, message: str = "", *shapes: Shape, tops: int = 1, **fields: Any) -> Drawn:
    """Return a network of one layer with inputs of these shapes."""
    inputs = {f"in{i}": shape for i, shape in enumerate(shapes)}
    made = Made(type_, message, fields, list(inputs), [f"out{i}" for i in range(tops)], "l")
    return Drawn(0, inputs, [made])


def chain(shape: Shape, *layers: tuple[str, str, dict[str, Any]], in_place: bool = False) -> Drawn:
    """Return a network in which each layer reads the one before."""
    names = ["in0", *(f"t{i}" for i in range(len(layers)))]
    if in_place:
        names[-1] = names[-2]
    made = [Made(*one, [names[i]], [names[i + 1]], f"l{i}") for i, one in enumerate(layers)]
    return Drawn(0, {"in0": shape}, made)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table.

    layer: a layer type, or several with `|`. what: which of them. opencv and anylayer: what each does. source: the
    file in OpenCV's modules/dnn/src with the rule. kinds: the verdicts. example: a network; None if OpenCV's
    results vary, because it uses memory that is not its own. fits: whether the row is about a layer with inputs of
    these shapes. whole: whether it is about a network whose layers alone do not differ. text: a pattern of the
    verdict's reason. theirs: the layer whose results in anylayer are OpenCV's.
    """

    layer: str
    what: str
    opencv: str
    anylayer: str
    source: str
    kinds: tuple[str, ...]
    example: Drawn | None
    fits: Fits | None = None
    whole: Callable[[Drawn], Any] | None = None
    text: str = ""
    theirs: Callable[[Made], Made] | None = None


def without(*names: str, **others: Any) -> Callable[[Made], Made]:
    """Return a function that drops fields of a layer, and sets others."""
    return lambda made: replace(made, fields={k: v for k, v in made.fields.items() if k not in names} | others)


def _sizes(made: Made, stem: str, single: str, default: int) -> list[int]:
    """Return a size of windows along both axes."""
    both = made.fields.get(single, default)
    both = both if isinstance(both, list) else [both, both]
    return [made.fields.get(f"{stem}_{axis}", size) for axis, size in zip("hw", both)]


def _overhangs(made: Made, shapes: Sequence[Shape]) -> bool:
    """Return whether a kernel is larger than the padded map."""
    kernel, pad = _sizes(made, "kernel", "kernel_size", 0), _sizes(made, "pad", "pad", 0)
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, _sizes(made, "dilation", "dilation", 1))]
    return len(shapes[0]) == 4 and any(k > n + 2 * p for k, n, p in zip(extents, shapes[0][2:], pad))


def _strides_over(made: Made, shapes: Sequence[Shape]) -> bool:
    kernel, stride = _sizes(made, "kernel", "kernel_size", 0), _sizes(made, "stride", "stride", 1)
    return any(s > k for s, k in zip(stride, kernel))


def _padded_beyond(made: Made, shapes: Sequence[Shape]) -> bool:
    return any(p >= k for p, k in zip(_sizes(made, "pad", "pad", 0), _sizes(made, "kernel", "kernel_size", 0)))


def _skips_an_output(drawn: Drawn) -> bool:
    """Return whether a later output of a Split is read, and an earlier one is not."""
    read = [name for made in drawn.layers for name in made.bottoms]
    splits = [[top in read for top in made.tops] for made in drawn.layers if made.type == "Split"]
    return any(flags != sorted(flags, reverse=True) for flags in splits)


def _feeds(drawn: Drawn, condition: Callable[[Made], Any], *readers: str) -> bool:
    """Return whether a layer of these types, by default BatchNorm and Scale, reads one for which the condition
    holds."""
    tops = {made.tops[0] for made in drawn.layers if condition(made)}
    return any(
        made.bottoms[0] in tops for made in drawn.layers if made.type in (readers or ("BatchNorm", "Scale"))
    )


def _fused_into_eltwise(drawn: Drawn) -> bool:
    """Return whether a layer with numbers per channel reads an Eltwise, maybe of arrays with fewer than 4 axes."""
    readers = [
        m.bottoms[0]
        for m in drawn.layers
        if m.type == "BatchNorm" or (m.type == "PReLU" and not m.fields.get("channel_shared"))
    ]
    sums = {m.tops[0] for m in drawn.layers if m.type == "Eltwise"}
    return any(len(shape) < 4 for shape in drawn.inputs.values()) and not sums.isdisjoint(readers)


def _scaled_along_other_axes(drawn: Drawn) -> bool:
    """Return whether a Scale that has no values per channel reads a convolution."""
    scales = [m.bottoms[0] for m in drawn.layers if m.type == "Scale" and m.fields.get("axis", 1) != 1]
    return not {m.tops[0] for m in drawn.layers if "onvolution" in m.type}.isdisjoint(scales)


_MAP = (1, 3, 6, 8)
_OVERHANG = "a kernel larger than the padded map, with a stride larger than what is missing"
_POOL = {"kernel_size": 2, "stride": 3, "pool": Word("MAX")}
ROWS = (
    Row("any", "a blob with one axis", "shape (n, 1)", "shape (n,)", "every blob is a cv::Mat, of 2 axes at least",
        (DIFFERS,), one("Flatten", "flatten_param", _MAP, axis=0), lambda m, s: True,
        text=r"^shape \((\d+),\), OpenCV has \(\1, 1\)$"),
    Row("LRN", "`k` across channels", "ignored", "used, as in Caffe",
        "layers/lrn_layer.cpp reads the field `bias`", (DIFFERS,),
        one("LRN", "lrn_param", _MAP, alpha=0.5, k=2.0), lambda m, s: m.fields.get("k", 1) != 1,
        theirs=lambda m: without("k", alpha=m.fields.get("alpha", 1e-4))(m)),
    Row("LRN", "no `alpha`", "0.0001", "1, as in Caffe", "layers/lrn_layer.cpp, the default", (DIFFERS,),
        one("LRN", "lrn_param", _MAP, local_size=3), lambda m, s: "alpha" not in m.fields,
        theirs=without(alpha=1e-4)),
    Row("MVN", "`eps`", "x / sqrt(var + eps)", "x / (sqrt(var) + eps), as in Caffe",
        "layers/cpu_kernels/fast_norm.cpp", (DIFFERS,), one("MVN", "mvn_param", _MAP, eps=0.1),
        lambda m, s: m.fields.get("eps", 0) > 1e-6 or math.prod(s[0][2:]) <= 2),  # two near values vary little
    Row("MVN", "2 or 3 axes", "the shape of the input", "4 axes, as in Caffe",
        "layers/mvn_layer.cpp, getMemoryShapes", (DIFFERS,), one("MVN", "mvn_param", (1, 3, 8)),
        lambda m, s: len(s[0]) < 4),
    Row("MVN", "2 axes, per channel", "refused", "computed", "layers/cpu_kernels/fast_norm.cpp:12", (OPENCV,),
        one("MVN", "mvn_param", (1, 3)), lambda m, s: len(s[0]) < 3,
        text="fastNorm: axis out of range|the process died"),
    Row("MVN", "across channels, before a BatchNorm or Scale", "scales a sample by the factor of one channel",
        "scales each channel", "layers/mvn_layer.cpp, `fuse_batch_norm`", (DIFFERS,),
        chain((6, 3, 8, 8), ("MVN", "mvn_param", {"across_channels": True}), ("BatchNorm", "", {})),
        whole=lambda drawn: _feeds(drawn, lambda m: m.type == "MVN" and m.fields.get("across_channels"))),
    Row("MVN", "per channel, before a Power", "refused", "computed",
        "layers/cpu_kernels/fast_norm.cpp:123, after `fuse_batch_norm`", (OPENCV,),
        chain(_MAP, ("MVN", "mvn_param", {}), ("Power", "power_param", {"scale": 2.0})),
        whole=lambda drawn: _feeds(drawn, lambda m: m.type == "MVN", "Power"), text="scale should be a 1d tensor"),
    Row("BatchNorm", "`use_global_stats: false`, `eps`", "adds `eps` to the variance of the normalized values, 1",
        "adds it to the variance of the input, as in Caffe",
        "caffe/caffe_importer.cpp adds an MVN before a BatchNorm of variance 1", (DIFFERS,),
        one("BatchNorm", "batch_norm_param", _MAP, use_global_stats=False, eps=0.01),
        lambda m, s: m.fields.get("use_global_stats") is False and m.fields.get("eps", 1e-5) >= 1e-5),
    Row("BatchNorm", "`use_global_stats: false`, several samples or 2 axes", "refused", "computed",
        "layers/batch_norm_layer.cpp:169", (OPENCV,),
        one("BatchNorm", "batch_norm_param", (2, 3, 4, 4), use_global_stats=False),
        lambda m, s: m.fields.get("use_global_stats") is False and (s[0][0] > 1 or len(s[0]) < 3),
        text="batch size > 1|fastNormChannel"),
    Row("Concat", "one input", "memory that is not initialized, where it is the network's input", "the input",
        "layers/concat_layer.cpp, forward", (DIFFERS,), None,
        lambda m, s: len(m.bottoms) == 1,
        lambda drawn: any(m.type == "Concat" and len(m.bottoms) == 1 for m in drawn.layers)),
    Row("Concat", "`concat_dim`", "ignored: axis 1", "used, as in Caffe", "layers/concat_layer.cpp reads `axis`",
        (DIFFERS,), one("Concat", "concat_param", _MAP, _MAP, concat_dim=0), lambda m, s: "concat_dim" in m.fields,
        theirs=without("concat_dim")),
    Row("Slice", "`slice_dim`", "ignored: axis 1", "used, as in Caffe", "layers/slice_layer.cpp reads `axis`",
        (DIFFERS, OPENCV), one("Slice", "slice_param", (2, 4, 3, 3), tops=2, slice_dim=0, slice_point=1),
        lambda m, s: "slice_dim" in m.fields, text="shape|must be greater than"),
    Row("Slice", "no `slice_point`, and outputs that are not read", "refused", "computed",
        "layers/slice_layer.cpp:414 counts the outputs that are read", (OPENCV,),
        one("Slice", "slice_param", (1, 4, 3, 3), tops=2), lambda m, s: "slice_point" not in m.fields,
        text="splits > 0"),
    Row("Slice", "`axis` below 0 with `slice_point`, in a network of several layers", "refused",
        "counted from the last axis, as in Caffe", "layers/slice_layer.cpp, SliceLayerImpl", (OPENCV,),
        Drawn(0, {"in0": _MAP}, [Made("Slice", "slice_param", {"axis": -1, "slice_point": 1}, ["in0"], ["a", "b"],
                                      "l0"),
                                 Made("TanH", "", {}, ["a"], ["c"], "l1"),
                                 Made("TanH", "", {}, ["b"], ["d"], "l2")]),
        whole=lambda drawn: any(m.type == "Slice" and m.fields.get("axis", 1) < 0 and "slice_point" in m.fields
                                for m in drawn.layers), text="must be greater than|invalid crop parameters"),
    Row("Split", "a later output is read, an earlier one is not", "refused", "computed",
        "net_impl.cpp:1148, `out_port`", (OPENCV,),
        Drawn(0, {"in0": _MAP}, [Made("Split", "", {}, ["in0"], ["a", "b"], "l0"),
                                 Made("TanH", "", {}, ["b"], ["c"], "l1")]),
        whole=_skips_an_output, text="out_port"),
    Row("InnerProduct", "`transpose`", "ignored", "used, as in Caffe",
        "layers/fully_connected_layer.cpp", (DIFFERS,),
        one("InnerProduct", "inner_product_param", (1, 3), num_output=4, transpose=True),
        lambda m, s: m.fields.get("transpose")),
    Row("InnerProduct", "`axis` 2, before a BatchNorm or Scale", "wrong values",
        "as Caffe", "layers/fully_connected_layer.cpp, tryFuse", (DIFFERS,),
        chain(_MAP, ("InnerProduct", "inner_product_param", {"num_output": 1, "axis": 2}), ("BatchNorm", "", {})),
        whole=lambda drawn: _feeds(drawn, lambda m: m.type == "InnerProduct" and m.fields.get("axis", 1) != 1)),
    Row("Deconvolution", "`dilation`", "ignored", "used, as in Caffe",
        "layers/convolution_layer.cpp, DeConvolutionLayerImpl::getMemoryShapes", (DIFFERS, OPENCV),
        one("Deconvolution", "convolution_param", _MAP, num_output=2, kernel_size=2, dilation=2),
        lambda m, s: m.fields.get("dilation", 1) != 1, theirs=without("dilation")),
    Row("Deconvolution", "`pad` of the kernel's size or more", "wrong values, or the process ends", "computed",
        "layers/convolution_layer.cpp, DeConvolutionLayerImpl::forward", (DIFFERS, OPENCV), None, _padded_beyond,
        text="values differ|the process died"),
    Row("Deconvolution", "several groups, before a BatchNorm or Scale", "wrong values", "as Caffe",
        "layers/convolution_layer.cpp, DeConvolutionLayerImpl::fuseWeights", (DIFFERS,),
        chain((1, 4, 6, 6),
              ("Deconvolution", "convolution_param", {"num_output": 4, "kernel_size": 2, "group": 2}),
              ("Scale", "scale_param", {})),
        whole=lambda drawn: _feeds(drawn, lambda m: m.type == "Deconvolution" and m.fields.get("group", 1) > 1)),
    Row("Convolution | Deconvolution", "before a Scale whose `axis` is not 1", "refused", "computed",
        "layers/convolution_layer.cpp, fuseWeights", (OPENCV,),
        chain((1, 4, 6, 6), ("Convolution", "convolution_param", {"num_output": 4, "kernel_size": 2}),
              ("Scale", "scale_param", {"axis": 2})),
        whole=_scaled_along_other_axes, text="w.total"),
    Row("Convolution | ConvolutionDepthwise", _OVERHANG, "wrong values, or the process ends",
        "1 value, as in Caffe", "layers/cpu_kernels/convolution.cpp", (DIFFERS, OPENCV), None, _overhangs,
        text="values differ|the process died|must be greater than|Insufficient memory|isContinuous"),
    Row("Pooling", "`stride` larger than the kernel", "another value for windows that start beyond the map",
        "as Caffe", "layers/pooling_layer.cpp, PoolingInvoker", (DIFFERS,),
        one("Pooling", "pooling_param", (1, 1, 6, 10), **_POOL), _strides_over),
    Row("Pooling", "no `pool`", "refused", "MAX, as in Caffe", "layers/pooling_layer.cpp:141", (OPENCV,),
        one("Pooling", "pooling_param", _MAP, global_pooling=True), lambda m, s: "pool" not in m.fields,
        text="Cannot determine pooling type"),
    Row("Pooling", _OVERHANG, "refused",
        "1 value, as in Caffe", "layers/pooling_layer.cpp, getMemoryShapes", (OPENCV,),
        one("Pooling", "pooling_param", (1, 2, 1, 1), pool=Word("AVE"), kernel_size=2, stride=2), _overhangs,
        text="must be greater than"),
    Row("Pooling", "`pad` of the kernel's size or more", "computed", "refused, as in Caffe",
        "layers/pooling_layer.cpp does not check it", (ANYLAYER,),
        one("Pooling", "pooling_param", (1, 4, 1, 1), pool=Word("MAX"), kernel_size=1, stride=1, pad=1),
        _padded_beyond, text="pad must be less than the kernel"),
    Row("Normalize", "`across_spatial` with a scale per channel", "refused", "computed",
        "layers/normalize_bbox_layer.cpp:260", (OPENCV,),
        one("Normalize", "norm_param", _MAP, channel_shared=False),
        lambda m, s: m.fields.get("across_spatial", True), text="scale.total\\(\\) == numPlanes"),
    Row("PReLU | Normalize", "`channel_shared`, a weight without axes", "refused", "computed",
        "caffe/caffe_importer.cpp makes a cv::Mat of the blob's shape", (OPENCV,),
        one("PReLU", "prelu_param", _MAP, channel_shared=True),
        lambda m, s: m.fields.get("channel_shared", m.type == "Normalize"), text=r"matrix.cpp:\d+.* 0 <= d"),
    Row("Permute", "an `order` of some of the axes", "refused", "the rest follows, as in SSD's Caffe",
        "layers/permute_layer.cpp:101 and 162", (OPENCV,), one("Permute", "permute_param", _MAP, order=[2, 0]),
        lambda m, s: len(m.fields["order"]) < len(s[0]), text="permute_layer.cpp"),
    Row("ShuffleChannel", "inputs that do not have 4 axes", "refused", "computed",
        "layers/shuffle_channel_layer.cpp:37", (OPENCV,),
        one("ShuffleChannel", "shuffle_channel_param", (1, 4, 8), group=2),
        lambda m, s: len(s[0]) != 4, text="shuffle_channel_layer.cpp"),
    Row("Eltwise", "more than 5 axes", "refused", "computed", "layers/eltwise_layer.cpp:316", (OPENCV,),
        one("Eltwise", "eltwise_param", (1,) * 6, (1,) * 6, operation=Word("PROD")), lambda m, s: len(s[0]) > 5,
        text="dst.dims <= 5"),
    Row("Eltwise", "fewer than 4 axes, before a BatchNorm, or a PReLU with a slope per channel",
        "the first channel's numbers in every channel", "each channel's own numbers, as in Caffe",
        "layers/eltwise_layer.cpp, EltwiseInvoker", (DIFFERS,),
        Drawn(0, {"in0": (1, 3), "in1": (1, 3)},
              [Made("Eltwise", "eltwise_param", {"operation": Word("SUM")}, ["in0", "in1"], ["a"], "l0"),
               Made("PReLU", "prelu_param", {"channel_shared": False}, ["a"], ["b"], "l1")]),
        whole=_fused_into_eltwise),
    Row("Scale", "`axis` below 0", "refused, or wrong values", "counted from the last axis, as in Caffe",
        "layers/scale_layer.cpp calls `total` of include/opencv2/dnn/shape_utils.hpp", (OPENCV, DIFFERS),
        one("Scale", "scale_param", _MAP, axis=-1), lambda m, s: m.fields.get("axis", 1) < 0,
        text="shape_utils.hpp|values differ|the process died"),
    Row("Axpy", "a factor that is not one value per channel, or inputs of two shapes",
        "computed, if the numbers of values fit", "refused",
        "layers/scale_layer.cpp, `numWeights`", (ANYLAYER,), one("Axpy", "", _MAP, _MAP, _MAP),
        lambda m, s: True, text="one value per channel|must be of shape"),
    Row("Axpy", "several samples", "refused", "computed", "layers/scale_layer.cpp, `numWeights`", (OPENCV,),
        one("Axpy", "", (2, 3, 1, 1), (2, 3, 4, 4), (2, 3, 4, 4)), lambda m, s: s[0][0] > 1,
        text="shape_utils.hpp"),
    Row("Axpy", "inputs a, x, y", "a * y + x", "a * x + y, as in SENet's Caffe",
        "caffe/caffe_importer.cpp scales the last input", (DIFFERS,), one("Axpy", "", (1, 3), _MAP, _MAP),
        lambda m, s: True, theirs=lambda m: replace(m, bottoms=[m.bottoms[0], m.bottoms[2], m.bottoms[1]])),
    Row("Eltwise", "inputs of other shapes", "repeated, if all but the channels are 1", "refused, as in Caffe",
        "layers/eltwise_layer.cpp, getMemoryShapes", (ANYLAYER,),
        one("Eltwise", "eltwise_param", (1, 2, 4, 4), (1, 2, 1, 1), operation=Word("PROD")),
        lambda m, s: len(set(s)) > 1, text="inputs must have one shape"),
    Row("Reorg", "channels that 4 does not divide", "computed", "refused: Darknet reads beyond the input",
        "layers/reorg_layer.cpp", (ANYLAYER,), one("Reorg", "reorg_param", (1, 6, 8, 8), stride=2),
        lambda m, s: s[0][1] % 4, text="does not divide"),
    Row("Interp", "`pad_beg` and `pad_end`", "ignored", "refused", "layers/resize_layer.cpp, InterpLayer",
        (ANYLAYER,),
        one("Interp", "interp_param", _MAP, height=5, width=6, pad_beg=-1), lambda m, s: "pad_beg" in m.fields,
        text="OpenCV's Interp has no pad_beg"),
    Row("Resample", "`type: LINEAR`", "samples at y * H / H'", "samples at pixel centers, as in FlowNet's Caffe",
        "caffe/caffe_importer.cpp sets `interpolation` only; layers/resize_layer.cpp", (DIFFERS,),
        one("Resample", "resample_param", _MAP, height=12, width=16, type=Word("LINEAR"), antialias=False),
        lambda m, s: m.fields.get("type") == "LINEAR"),
    Row("AbsVal", "in place", "computed", "refused, as in Caffe", "layers/elementwise_layers.cpp", (ANYLAYER,),
        chain(_MAP, ("TanH", "", {}), ("AbsVal", "", {}), in_place=True),
        whole=lambda drawn: any(m.type == "AbsVal" and m.bottoms == m.tops for m in drawn.layers),
        text="cannot work in place"),
)  # fmt: skip


def row_of(drawn: Drawn, verdict: Verdict) -> Row | None:
    """Return the row that states a difference, or None."""
    made = verdict.layer
    for row in ROWS:
        if verdict.what not in row.kinds or not re.search(row.text, verdict.reason):
            continue
        if made is None and row.whole is not None and row.whole(drawn):
            return row
        if made is not None and _is_about(row, verdict, made) and _is_theirs(row, verdict, made):
            return row
    return None


def _is_about(row: Row, verdict: Verdict, made: Made) -> bool:
    named = row.layer == "any" or made.type in row.layer.split(" | ")
    return named and row.fits is not None and bool(row.fits(made, verdict.shapes))


def _is_theirs(row: Row, verdict: Verdict, made: Made) -> bool:
    """Return whether the rule that the row states gives OpenCV's results, where it can be spelled as a layer."""
    return row.theirs is None or verdict.again is None or verdict.again(row.theirs(made))


def markdown() -> str:
    """Return the table of docs/opencv.md."""
    lines = ["| layer | | OpenCV 4.14 | anylayer | OpenCV's rule, in modules/dnn/src |", "|---|---|---|---|---|"]
    cells = [(row.layer.replace(" | ", ", "), row.what, row.opencv, row.anylayer, row.source) for row in ROWS]
    return "\n".join([*lines, *dict.fromkeys(f"| {' | '.join(row)} |" for row in cells)])
