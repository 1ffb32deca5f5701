"""The book of operators: the traits of ONNX's operators. No other list of names states what kind an operator is.

The attributes of operators and their defaults are in graph/attributes.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from anylayer.graph.ir import Graph, Op


@dataclass(frozen=True, slots=True)
class Trait:
    """A set of ONNX operators, in which `op in TRAIT` looks up an Op. An operator of another domain is in none."""

    names: frozenset[str]

    def __contains__(self, op: Op | None) -> bool:
        return op is not None and not op.domain and op.op in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.names))

    def __or__(self, other: Trait) -> Trait:
        return Trait(self.names | other.names)

    def __sub__(self, other: Trait) -> Trait:
        return Trait(self.names - other.names)


def _trait(names: str) -> Trait:
    return Trait(frozenset(names.split()))


# --------------------------------------------------------------------- element by element

ARITHMETIC = _trait("Add Div Mul Sub")
COMPARISONS = _trait("Equal Greater GreaterOrEqual Less LessOrEqual")
COMMUTATIVE = _trait("Add And Equal Max Min Mul Or Xor")
SEVERAL = _trait("Max Mean Min Sum")
"""Operators of any number of inputs that broadcast. They are the identity of a single input."""
TRANSCENDENTAL = _trait("""
    Acos Acosh Asin Asinh Atan Atanh Cos Cosh Erf Exp Gelu Log Mish Sigmoid Sin Sinh Softplus Swish Tan Tanh
""")
"""Functions whose last bits differ between engines, because each has its own approximation."""
COSTLY = TRANSCENDENTAL | _trait("Mod Pow")
"""Functions of an element that take many instructions."""
UNARY = TRANSCENDENTAL | _trait("""
    Abs BitwiseNot Cast Ceil Celu Clip Elu Floor HardSigmoid HardSwish IsInf IsNaN LeakyRelu Neg Not Reciprocal
    Relu Round Selu Shrink Sign Softsign Sqrt ThresholdedRelu
""")
"""Functions of one number, which are applied to each element of the first input. Other inputs are scalars."""
_OTHERS = _trait("And BitShift BitwiseAnd BitwiseOr BitwiseXor Mod Or PRelu Pow Where Xor")
BROADCASTING = ARITHMETIC | COMPARISONS | SEVERAL | _OTHERS
"""Functions of several numbers, which are applied to the elements of inputs that broadcast."""
ELEMENTWISE = UNARY | BROADCASTING

# ------------------------------------------------------------------- elements are moved

VIEWS = _trait("Flatten Identity Reshape Squeeze Unsqueeze")
"""Operators that keep all elements in their order."""
LINEAR = VIEWS | _trait("Add Cast Mul")
"""Operators that compute a * x + b of a number x where their other operand is constant."""
INDEX_ARITHMETIC = ARITHMETIC | VIEWS | _trait("Cast Expand Mod Neg Range Transpose")
"""Operators by which integers that depend only on positions are computed from such integers."""
POSITIONS = VIEWS | _trait("Add Cast NonZero Slice")
"""Operators that compute positions of true elements, plus a number."""
REARRANGES = VIEWS | _trait("DepthToSpace SpaceToDepth Transpose")
"""Operators whose result has each element of the first input once."""
SELECTS = REARRANGES | _trait("""
    Compress Expand Gather GatherElements GatherND ReverseSequence Slice Split Tile
""")
"""Operators whose results are elements of the first input."""
NEEDS_ELEMENTS = _trait("""
    ArgMax ArgMin Gather GlobalMaxPool MaxPool ReduceMax ReduceMin Reshape Slice Squeeze TopK
""")
"""Operators whose output has elements only if their first input has some."""
MOVES = SELECTS | _trait("CenterCropPad Concat Pad ScatterElements ScatterND Trilu")
"""Operators whose results are elements of their inputs, or a constant."""
INDEXED = _trait("Gather GatherElements GatherND ScatterElements ScatterND")
"""Operators whose second input are indices."""
CREATES = _trait("ConstantOfShape EyeLike Range Shape Size")
"""Operators that read sizes and limits, but no data."""
SHAPES = _trait("Shape Size")
SIZED_BY_DATA = _trait("Compress NonMaxSuppression NonZero Unique")
"""Operators whose number of results depends on data."""

COUNTED = ELEMENTWISE | VIEWS | _trait("Compress Concat Expand Gather Loop NonZero Range Slice")
"""Operators that generated loops compute where sizes of their results depend on data."""


def is_sized_by_data(op: Op) -> bool:
    """Return whether the number of an operator's results depends on data, also of a Range to a computed number."""
    return op in SIZED_BY_DATA or (op.op == "Range" and any(v is not None and v.const is None for v in op.inputs))


def selects(graph: Graph) -> bool:
    """Return whether the code that a graph records selects a number of elements that depends on data."""
    return graph.selects or any(map(is_sized_by_data, graph.ops))


SHORTENS = SIZED_BY_DATA | _trait("Slice Split TopK")
"""Operators that return at most as many elements along an axis as they read."""
RANK_KEEPING = ELEMENTWISE | _trait(
    "CenterCropPad Concat Pad Resize ReverseSequence Slice Split Tile Transpose Trilu"
)
"""Operators whose outputs have the rank of their first input, if it has the largest rank."""

# ------------------------------------------------------------------ many elements at once

PRODUCTS = _trait("Conv ConvTranspose Gemm MatMul")
"""Operators that are linear in the first input. The second input are the weights."""
WINDOWED = _trait("AveragePool Conv ConvTranspose LpPool MaxPool")
RECURRENT = _trait("GRU LSTM RNN")
WEIGHTED = PRODUCTS | RECURRENT
GATES = _trait("Relu Sigmoid Tanh")
"""The activations that the recurrent operators of every engine take."""
EXTREMES = _trait("GlobalMaxPool MaxPool ReduceMax ReduceMin TopK")
"""Operators whose first result consists of the largest or smallest elements of the first input."""
AVERAGE_POOLINGS = _trait("AveragePool GlobalAveragePool")
PLAIN_SUMS = AVERAGE_POOLINGS | _trait("ReduceMean ReduceSum")
"""Operators whose results are sums of elements of the input, or a share of them."""
SUMMING_REDUCTIONS = _trait("""
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMean ReduceProd ReduceSum ReduceSumSquare
""")
"""Reductions that add or multiply."""
REDUCTIONS = SUMMING_REDUCTIONS | _trait("ReduceMax ReduceMin")
NORMALIZATIONS = _trait("""
    GroupNormalization InstanceNormalization LRN LayerNormalization LogSoftmax LpNormalization
    MeanVarianceNormalization RMSNormalization Softmax
""")
"""Operators that divide by a number that depends on many elements."""
SAMPLES = _trait("GridSample RoiAlign")
"""Operators that interpolate at positions that are data."""
WEIGHTED_SUMS = PRODUCTS | AVERAGE_POOLINGS | _trait("Col2Im DeformConv Einsum")
"""Operators that sum elements times weights."""
SUMS = WEIGHTED_SUMS | RECURRENT | SUMMING_REDUCTIONS | NORMALIZATIONS | SAMPLES
SUMS |= _trait("CumSum DFT GlobalLpPool LpPool STFT")
"""Operators that sum many elements. The last bits of their results always differ between engines."""

FUSES = WEIGHTED | WINDOWED | SAMPLES | _trait("Einsum Resize")
"""Operators that every engine has fast code for, into which it fuses the operators of FUSED that follow."""
FUSED = ELEMENTWISE | VIEWS | _trait("BatchNormalization")
LOOPS = ELEMENTWISE | MOVES | CREATES | REDUCTIONS | NORMALIZATIONS | _trait("ArgMax ArgMin CumSum Loop TopK")
"""Operators that loops over elements compute as fast as an engine, and faster where they are fused."""

# ------------------------------------------------------------------------------- scaling

HOMOGENEOUS = SELECTS | EXTREMES | AVERAGE_POOLINGS | _trait("LeakyRelu PRelu Relu")
"""Operators that multiply their first output by a positive number if their first input is multiplied by it."""
HOMOGENEOUS_TOGETHER = SEVERAL | _trait("Add Concat Sub")
"""Operators that multiply their output by a positive number if all their inputs are multiplied by it."""
MODULAR = VIEWS | _trait("""
    Add CumSum Expand Mul Neg ReduceProd ReduceSum ReduceSumSquare Slice Sub Transpose Where
""")
"""Operators whose last 32 bits depend only on the last 32 bits of their inputs. If the result of a chain of them
fits 32 bits, it is correct, even if values within the chain need more."""

# --------------------------------------------------------------------------------- steps

RANDOM = _trait("Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike")
DISCONTINUOUS = COMPARISONS | _trait("""
    ArgMax ArgMin BitCast Ceil Compress DynamicQuantizeLinear Floor Hardmax MaxRoiPool Mod NonMaxSuppression
    NonZero OneHot QuantizeLinear Range Round Shrink Sign ThresholdedRelu TopK Unique
""")
"""Operators of which a change in the last bit of a float input can change the result by any amount. Others are
discontinuous with some attributes or dtypes only: see is_discontinuous."""


def is_discontinuous(op: Op) -> bool:
    """Return whether a change in the last bit of a float input can change a result by any amount.

    Casts to integers and booleans, the indices of a maximum pooling, samples of the nearest cell and loops over
    such operators count, too. An operator without float inputs does not, nor does an operator of another domain.
    """
    if op.domain or not any(v is not None and v.dtype.kind == "f" for v in op.inputs):
        return False
    if op.op == "Cast":
        return op.outputs[0].dtype.kind in "iub"
    if op.op == "Loop":
        return op.body is None or any(map(is_discontinuous, op.body.ops))
    if op.op == "GridSample":
        return bool(op["mode"] == "nearest")
    if op.op == "RoiAlign":  # without a ratio, the number of samples is the size of the bin, rounded up
        return not op["sampling_ratio"]
    return op in DISCONTINUOUS or (op.op == "MaxPool" and len(op.outputs) > 1)
