"""The order of all rules: the stages of a simplification, and the files of rules within each stage."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anylayer.graph.ir import Graph

STAGES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("reduce",), "with fewer operators and no identities, the patterns of all other rules are shorter"),
    (("layout",), "operators that vanish would keep Transposes apart from their inverses"),
    (("reduce",), "where Transposes have met and vanished, the operators around them can be combined"),
    (("raise",), "what is spelled out becomes one operator; rules for whole operators come before their parts"),
    (("lower",), "the rules for one engine combine the parts of an operator with what is around them"),
    (("faster",), "the user's operators are matched before those that only one engine has hide them"),
    (("reduce", "last"), "SpaceToDepth, PRelu and BatchNormalization hide operators that other rules match"),
)
"""The stages of `simplify`, each with the reason why it stands here. In the last one, the rules of "reduce" come
before those of "last"."""

CORRECTED: tuple[tuple[str, str], ...] = (
    ("check", "inputs that end the process must not reach an operator that replaces another one"),
    ("correct", ""),
    ("refuse", "only what the corrected graph holds reaches the engine"),
)
"""The stages of rules that must be applied, in their order: see corrections."""

FILES: tuple[tuple[str, str], ...] = (
    ("optimize.rewrites.identity", "no other rule has to look at what it removes: conv + 0 needs no new bias"),
    (
        "optimize.rewrites.convolutions",
        "a factor in the weights costs nothing, and a mean of maps has their layout",
    ),
    ("optimize.rewrites.folding", "a permutation in the weights costs nothing, a Transpose before a Pad does"),
    ("optimize.rewrites.activations", ""),
    ("optimize.rewrites.exponentials", ""),
    ("optimize.rewrites.gelu", ""),
    ("optimize.rewrites.normalization", ""),
    ("optimize.rewrites.interpolation", ""),
    ("optimize.rewrites.resizing", ""),
    ("optimize.rewrites.sums", "a sum along one axis, as a product, reads a Transpose as it is"),
    ("optimize.rewrites.transposes", ""),
    ("optimize.rewrites.repeats", ""),
    ("optimize.rewrites.blocks", ""),
    ("optimize.rewrites.loops", "a loop that becomes one operator ends before it is limited"),
    ("optimize.rewrites.scaling", ""),
    ("optimize.rewrites.lowering", ""),
    ("optimize.layout_rules", ""),
    ("corrections.integers", "integers of 64 bits are followed through every operator that keeps their last bits"),
    ("corrections.ncnn", ""),
    ("corrections.onnxruntime", "a zero that is added before a division must not be kept apart by rounding"),
    ("corrections.openvino", ""),
    ("corrections.openvino_loops", ""),
    ("corrections.quantized", "what it computes by Cast, Sub and Mul holds no signed bytes that could saturate"),
    ("corrections.remainders", ""),
    ("corrections.rounding", ""),
    ("corrections.saturation", ""),
    ("corrections.tensorrt", ""),
    ("corrections.wide_integers", ""),
    ("writers.caffe.ascend_rules", ""),
    ("loops.regions", ""),
    ("loops.composites", ""),
    ("loops.windows", ""),
)
"""The files of rules, each with the reason why it stands before others. If several rules of a stage apply to an
operator, the first one is used. The rules of a file are in the order of their definitions. The reason is "" if no
operator matches rules of this file and of a later one."""


ONLY_FOR: dict[str, dict[str, str]] = {
    "optimize.rewrites.folding": {"": "Transpose"},
    "optimize.rewrites.exponentials": {
        "dv": "Div",
        "onnxruntime": "Div Mul Tanh",
        "openvino": "Tanh",
        "pytorch": "Div",
    },
    "optimize.rewrites.gelu": {"onnxruntime": "Mul Div"},
    "optimize.rewrites.normalization": {"onnxruntime": "LRN"},
    "optimize.rewrites.interpolation": {"onnxruntime": "Add Sub MatMul", "openvino": "Add Sub MatMul"},
    "optimize.rewrites.resizing": {"onnxruntime": "Resize", "openvino": "Resize"},
    "optimize.rewrites.sums": {
        "caffe": "Div",
        "onnxruntime": "ReduceSum ReduceMean Div Softmax",
        "openvino": "Softmax Sqrt",
    },
    "optimize.rewrites.repeats": {"onnxruntime": "Gather Reshape", "openvino": "Reshape Gather GatherElements"},
    "optimize.rewrites.blocks": {
        "onnxruntime": "Transpose Slice Concat Reshape",
        "openvino": "Slice Concat Reshape",
    },
    "optimize.rewrites.loops": dict.fromkeys(("", "cpp", "onnx", "onnxruntime", "openvino"), "Loop"),
    "optimize.rewrites.scaling": {"onnxruntime": "Add Div Mul Sub Pow", "openvino": "Pow"},
    "optimize.rewrites.lowering": {
        "caffe": "Gelu LRN PRelu",
        "dv": "LRN",
        "loops": "Gelu LogSoftmax PRelu Softmax Softplus",
        "ncnn": "Gelu LRN PRelu",
        "onnx": "Gelu",
        "onnxruntime": "Gelu LRN LogSoftmax PRelu Softmax Softplus",
        "openvino": "LRN PRelu",
        "pytorch": "LRN",
        "tensorrt": "Gelu LRN",
    },
    "optimize.layout_rules": {"": "Transpose"},
    "writers.caffe.ascend_rules": {"ascend": "Div GridSample Mul RoiAlign"},
    "corrections.integers": {"openvino": "any"},
    "corrections.ncnn": {"ncnn": "Resize"},
    "corrections.onnxruntime": {"onnxruntime": "Div Mod Resize Add Where", "openvino": "Add"},
    "corrections.openvino": {"openvino": "any", "onnx file": "Add Sub Mul Div Pow Mod Max Min"},
    "corrections.openvino_loops": {"openvino": "Loop", "onnx file": "Loop"},
    "corrections.quantized": {
        "onnxruntime": "DequantizeLinear",
        "openvino": "QuantizeLinear DequantizeLinear DynamicQuantizeLinear QLinearConv QLinearMatMul "
        "AveragePool GlobalAveragePool",
    },
    "corrections.remainders": {"openvino": "Mod"},
    "corrections.rounding": {"openvino": "Add Div Mul Sub", "openvino file": "Div"},
    "corrections.saturation": {
        "onnxruntime": "MatMulInteger ConvInteger QLinearMatMul QLinearConv DequantizeLinear",
        "openvino": "DequantizeLinear",
    },
    "corrections.tensorrt": {"tensorrt": "Resize"},
    "corrections.wide_integers": {
        "openvino": "Div Einsum MatMul Mod Pow ReduceL1 ReduceMax ReduceMean ReduceMin ReduceSum ReduceSumSquare "
        "Resize ReverseSequence Equal Less LessOrEqual Greater GreaterOrEqual Clip Relu Where"
    },
}
"""File of rules -> target ("" for all) -> the operators that the file has rules for. A file is loaded for a graph
with one of them, and a file that is not listed for every graph. "any" is in every graph; layouts begin at a
Transpose. A test compares this index with the rules."""

NEEDS: dict[str, str] = {"optimize.rewrites.gelu": "Erf Tanh"}
"""File of rules -> operators. The file is loaded only for a graph that has one of them, too."""


def position(module: str) -> int:
    """Return the position of a file of rules. Raises ValueError if FILES does not list it."""
    names = [name for name, _ in FILES]
    if module.removeprefix("anylayer.") not in names:
        raise ValueError(f"{module} declares rules, so FILES in optimize/order.py must list it")
    return names.index(module.removeprefix("anylayer."))


def load_rules(room: str, graph: Graph | None = None, target: str | None = None) -> None:
    """Import the files of a room that FILES lists, so that their rules are registered.

    graph: leave out files whose rules are for operators that the graph does not have, or for other targets than
    `target`: see ONLY_FOR and NEEDS.
    """
    present = {"any"} if graph is None else {"any", *(o.op for o in graph.ops)}
    for name, _ in FILES:
        operators = ONLY_FOR.get(name, {"": "any"})
        listed = f"{operators.get('', '')} {operators.get(target or '', '')}".split()
        others = NEEDS.get(name, "any").split()
        suits = graph is None or not (present.isdisjoint(listed) or present.isdisjoint(others))
        if name.split(".")[0] == room and suits:
            importlib.import_module(f"anylayer.{name}")
