"""Make numpy.npz: what MXNet computes for the operators of its NumPy interface, and for networks that use it.

python make_numpy.py    (in Python 3.8 with mxnet 1.9.1 and numpy 1.23)
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import mxnet as mx
import numpy as np
from mxnet import gluon, npx
from mxnet.gluon import nn
from recording import CASES, F, W, network, noise, save

X, Y = noise(2, 3, 4), noise(2, 3, 4, seed=1)
ROW = noise(3, 1, seed=2)
WHOLE = np.array([[3, -2, 0], [7, 5, -9]], np.int32)
TRUE = np.array([[True, False, True], [False, False, True]])


def case(name, *inputs, outputs=1, **attributes):
    """Add a case of one operator, whose name is the first word. The file has no function for all of them."""
    nodes, given, weights = [], {}, {}
    for i, x in enumerate(inputs):
        array = x.array if isinstance(x, W) else np.asarray(x)
        (weights if isinstance(x, W) else given)[f"in{i}"] = array
        dtype = {} if array.dtype == F else {"attrs": {"__dtype__": str(DTYPES.index(array.dtype.name))}}
        nodes.append({"op": "null", "name": f"in{i}", "inputs": [], **dtype})
    node = {"op": name.split()[0], "name": "op", "inputs": [[i, 0, 0] for i in range(len(inputs))]}
    if attributes:
        node["attrs"] = {key: str(value) for key, value in attributes.items()}
    count = len(inputs)
    whole = {
        "nodes": [*nodes, node],
        "arg_nodes": [*range(count)],
        "heads": [[count, i, 0] for i in range(outputs)],
        "attrs": {"mxnet_version": ["int", 10901], "is_np_shape": ["int", 1]},
    }
    with mx.util.np_shape(True):
        try:
            return network(name, None, given, weights, text=json.dumps(whole))
        except mx.base.MXNetError as error:
            print(f"not recorded: {name}: {str(error).strip().splitlines()[-1][:120]}")


DTYPES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")


def of_two():
    positive = np.abs(X) + F(0.1)
    for kind in ("add", "subtract", "multiply", "true_divide", "mod", "copysign", "arctan2", "hypot"):
        case(f"_npi_{kind}", X, Y)
        case(f"_npi_{kind} broadcast", X, ROW)
    case("_npi_power", positive, Y)
    for kind in ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal"):
        a, b = np.round(X), np.round(noise(3, 4, seed=5))
        case(f"_npi_{kind}", a, b)
        case(f"_npi_{kind}_scalar", a, scalar=1.0, is_int=True)
        case(f"_npi_{kind} int32", WHOLE, WHOLE[::-1].copy())
    for kind in ("add", "subtract", "multiply", "mod", "power", "true_divide"):
        for title, x in (("", positive), (" int32", np.abs(WHOLE) + 1)):
            case(f"_npi_{kind}_scalar{title}", x, scalar=2.0, is_int=True)
            case(f"_npi_{kind}_scalar{title} real", x, scalar=1.5, is_int=False)
    for kind in ("rsubtract", "rmod", "rpower", "rtrue_divide", "rarctan2", "arctan2", "copysign", "rcopysign"):
        case(f"_npi_{kind}_scalar", X, scalar=1.5, is_int=False)
    for kind in ("add", "multiply", "subtract", "true_divide"):
        case(f"_npi_{kind} mixed", noise(2, 3), WHOLE)
        if kind != "subtract":
            case(f"_npi_{kind} bool", noise(2, 3), TRUE)
        case(f"_npi_{kind}_scalar bool", TRUE, scalar=2.0, is_int=True)
        case(f"_npi_{kind}_scalar bool real", TRUE, scalar=1.5, is_int=False)
    case("_npi_greater_scalar int32 real", WHOLE, scalar=2.5, is_int=False)
    case("_npi_add float64", noise(2, 3), noise(2, 3).astype(np.float64))
    case("_npi_add int32", WHOLE, WHOLE)
    case("_npi_true_divide int32", WHOLE, np.abs(WHOLE) + 2)
    for kind in ("and", "or", "xor"):
        case(f"_npi_bitwise_{kind}", WHOLE, np.abs(WHOLE))
        case(f"_npi_bitwise_{kind} bool", TRUE, TRUE[:, ::-1].copy())
        case(f"_npi_bitwise_{kind}_scalar", WHOLE, scalar=5, is_int=True)
    case("_npi_bitwise_not", WHOLE)
    case("_npi_bitwise_not bool", TRUE)


def of_one():
    for kind in (
        "absolute", "sign", "rint", "ceil", "floor", "trunc", "fix", "square", "negative", "exp", "expm1", "sin",
        "cos", "tan", "arctan", "sinh", "cosh", "tanh", "arcsinh", "degrees", "radians", "reciprocal", "cbrt",
        "isnan", "isinf", "isfinite", "isposinf", "isneginf", "logical_not",
    ):  # fmt: skip
        case(f"_npi_{kind}", X * F(3))
    for kind in ("sqrt", "log", "log2", "log10", "log1p"):
        case(f"_npi_{kind}", np.abs(X) + F(0.1))
    for kind in ("arcsin", "arccos", "arctanh"):
        case(f"_npi_{kind}", X / F(4))
    case("_npi_arccosh", np.abs(X) + F(1.5))
    for kind in ("_npx_relu", "_npx_sigmoid", "_np_copy"):
        case(kind, X)
    case("_npi_around", X * F(10), decimals=0)
    case("_npi_around tenths", X, decimals=1)
    broken = X.copy()
    broken[0, 0] = [np.nan, np.inf, -np.inf, 1]
    case("_npi_nan_to_num", broken)
    case("_npi_nan_to_num values", broken, nan=1.5, posinf=7.0, neginf=-8.0)
    case("_npi_isnan special", broken)
    case("_npi_isinf special", broken)
    case("_npi_logical_not bool", TRUE)
    for kind in ("absolute", "negative", "square", "sign"):
        case(f"_npi_{kind} int32", WHOLE)


def reductions():
    for kind in ("_np_sum", "_np_prod", "_np_max", "_np_min", "_npi_mean"):
        case(kind, X)
        case(f"{kind} axis", X, axis=1)
        case(f"{kind} axes", X, axis=(0, -1), keepdims=True)
    case("_np_sum int32", WHOLE, axis=1)
    case("_np_sum bool", TRUE, axis=1)
    case("_npi_mean int32", WHOLE, axis=1)
    case("_np_sum dtype", X, axis=0, dtype="float64")
    case("_np_max int32", WHOLE, axis=0)
    for kind in ("_npi_std", "_npi_var"):
        case(kind, X)
        case(f"{kind} axis", X, axis=(1,), ddof=1, keepdims=True)
    for kind in ("_np_all", "_np_any"):
        case(kind, TRUE)
        case(f"{kind} axis", np.round(X), axis=(1,))
    for kind in ("_npi_argmax", "_npi_argmin"):
        case(kind, X)
        case(f"{kind} axis", X, axis=1)
        case(f"{kind} keepdims", X, axis=-1, keepdims=True)
    for kind, how in (("", {}), (" axis", {"axis": 1}), (" dtype", {"axis": 0, "dtype": "float64"})):
        case(f"_np_cumsum{kind}", X, **how)
    case("_np_cumsum int32", WHOLE, axis=1)
    case("_npi_average", X, axis=(1,), weighted=False)
    case("_npi_average weights", X, noise(3, seed=6) ** 2, axis=(1,), weighted=True)
    case("_np_trace", X, axis1=1, axis2=2, offset=0)


def matrices():
    a, b = noise(2, 3, 4), noise(2, 4, 5, seed=1)
    case("_npi_matmul", a, b)
    case("_npi_matmul matrix", a, W(noise(4, 6, seed=2)))
    case("_npi_matmul vector", a, noise(4, seed=2))
    case("_np_dot", noise(3, 4), noise(4, 5, seed=1))
    case("_np_dot ranks", a, noise(4, 5, seed=1))
    case("_np_dot vectors", noise(5), noise(5, seed=1))
    case("_np_dot last", a, noise(4, seed=3))
    case("_npi_tensordot", a, noise(4, 3, 2, seed=2), a_axes_summed=(1, 2), b_axes_summed=(1, 0))
    case("_npi_tensordot_int_axes", a, noise(4, 5, seed=2), axes=1)
    case("_npi_einsum", a, b, num_args=2, subscripts="bij,bjk->bik", optimize=0)
    case("_npi_einsum one", a, num_args=1, subscripts="bij->ji", optimize=0)
    case("_npi_einsum implicit", noise(3, 4), noise(4, 5, seed=1), num_args=2, subscripts="ij,jk", optimize=0)


def shapes():
    for i, (shape, new) in enumerate((((2, 3, 4), (-1, 4)), ((2, 3, 4), (4, 3, 2)), ((2, 3, 4), (24,)))):
        case(f"_np_reshape {i}", noise(*shape), newshape=new, order="C")
    for i, new in enumerate(
        ((-2, 12), (-1, 4), (-2, -5), (-5, -1), (-4,), (-2, -4), (-6, 1, 2, -4), (-2, -2, -6, 2, -1),
         (-2, -6, -1, 3, -4))
    ):  # fmt: skip
        case(f"_npx_reshape {i}", X, newshape=new)
    case("_npx_reshape -3", noise(2, 1, 4), newshape=(-2, -3, -1))
    case("_npx_reshape reverse", noise(8, 3, 4), newshape=(-1, -2), reverse=True)
    case("_npx_reshape reverse -5", noise(8, 3, 4), newshape=(-5, -2), reverse=True)
    case("_np_squeeze", noise(2, 1, 3, 1))
    case("_np_squeeze axis", noise(2, 1, 3, 1), axis=(1,))
    case("_np_transpose", X)
    case("_np_transpose axes", X, axes=(1, 2, 0))
    case("_np_moveaxis", X, source=(0,), destination=(2,))
    case("_np_roll", X, shift=(1,), axis=(2,))
    case("_np_roll flat", X, shift=(5,))
    case("_np_roll axes", X, shift=(1, -1), axis=(0, 1))
    case("_npi_broadcast_to", ROW, shape=(2, 3, 5))
    case("_npi_concatenate", X, Y, num_args=2, axis=1)
    case("_npi_concatenate flat", X, ROW, num_args=2, axis="None")
    case("_npi_stack", X, Y, num_args=2, axis=-1)
    for kind in ("hstack", "vstack", "dstack", "column_stack"):
        case(f"_npi_{kind}", noise(2, 3), noise(2, 3, seed=1), num_args=2)
    case("_split_v2 sections", noise(2, 6), outputs=3, indices=(), sections=3, axis=1)
    case("_split_v2 indices", noise(2, 7), outputs=3, indices=(0, 2, 5), sections=0, axis=1)
    case("_split_v2 squeeze", noise(2, 3), outputs=3, indices=(), sections=3, axis=1, squeeze_axis=True)
    case("_npi_hsplit", noise(2, 6), outputs=2, indices=(), sections=2, axis=1)
    case("_npi_flip", X, axis=(0, 2))
    case("_npi_rot90", X, k=1, axes=(0, 1))
    case("_npi_pad", X, pad_width=((0, 0), (1, 2), (0, 1)), mode="constant", constant_value=1.5)
    case("_npi_pad edge", X, pad_width=((0, 0), (1, 2), (0, 1)), mode="edge")
    case("_npi_pad reflect", X, pad_width=((0, 0), (1, 2), (0, 1)), mode="reflect", reflect_type="even")
    case("_npi_tril", noise(3, 4), k=0)
    case("_npi_tril below", noise(2, 4, 4), k=-1)
    case("_npi_diff", X, n=1, axis=1)
    case("_np_diagonal", X, offset=0, axis1=1, axis2=2)


def creation():
    case("_npi_zeros", shape=(2, 3), ctx="cpu(0)", dtype="float32")
    case("_npi_ones", shape=(2, 3), ctx="cpu(0)", dtype="int32")
    case("_npi_zeros scalar", shape=(), ctx="cpu(0)", dtype="float32")
    case("_full", shape=(2, 3), ctx="cpu(0)", dtype="float32", value=2.5)
    case("_npi_arange", start=0, stop=5, step=1, ctx="cpu(0)", dtype="float32")
    case("_npi_arange step", start=1.5, stop=-2, step=-0.5, ctx="cpu(0)", dtype="float64")
    case("_npi_arange one", start=6, step=2, ctx="cpu(0)", dtype="int32")
    case("_linspace", start=0, stop=1, num=5, endpoint=True, ctx="cpu(0)", dtype="float32")
    case("_linspace open", start=-1, stop=2, num=4, endpoint=False, ctx="cpu(0)", dtype="float32")
    case("_npi_full_like", X, fill_value=2.5, ctx="cpu(0)")
    case("_npi_full_like bool", X, fill_value=1, dtype="bool")
    case("_npi_identity", shape=(3, 3), ctx="cpu(0)", dtype="float32")
    case("_npi_eye", N=3, M=5, k=1, ctx="cpu(0)", dtype="float32")
    case("_npi_eye square", N=3, ctx="cpu(0)", dtype="float32")
    case("_npi_indices", dimensions=(2, 3), ctx="cpu(0)", dtype="int32")


def selection():
    condition = (X > 0).astype(F)
    case("_npi_where", condition, X, Y)
    case("_npi_where bool", X > 0, X, ROW)
    case("_npi_where_lscalar", X > 0, X, scalar=2.5)
    case("_npi_where_rscalar", X > 0, X, scalar=2.5)
    case("_npi_where_scalar2", X > 0, x=1.5, y=-2.5)


def exported(name, net, x):
    """Add a network as HybridBlock.export writes it under npx.set_np()."""
    mx.random.seed(2)
    net.initialize(mx.init.Xavier(rnd_type="gaussian"))
    net.hybridize()
    y = net(mx.np.array(x))
    with tempfile.TemporaryDirectory() as folder:
        net.export(f"{folder}/net")
        symbol, params = (Path(f"{folder}/net-{part}").read_bytes() for part in ("symbol.json", "0000.params"))
    outputs = {str(i): one.asnumpy() for i, one in enumerate(y if isinstance(y, (list, tuple)) else [y])}
    CASES.append({"name": name, "symbol": symbol, "params": params, "inputs": {"data": x}, "outputs": outputs})


class Attention(gluon.HybridBlock):
    """Multi-head attention with a mask of lengths, as in books that use MXNet's NumPy interface."""

    def __init__(self, size=12, heads=3):
        super().__init__()
        self._heads = heads
        with self.name_scope():
            self.parts = nn.Dense(3 * size, flatten=False, use_bias=False)
            self.last, self.norm = nn.Dense(size, flatten=False), nn.LayerNorm()

    def hybrid_forward(self, F, x):
        heads = F.npx.reshape(self.parts(x), (-2, -2, self._heads, -1))
        q, k, v = F.np.split(F.np.transpose(heads, (0, 2, 1, 3)), 3, axis=-1)
        q, k, v = (F.npx.reshape(one, (-5, -4)) for one in (q, k, v))
        scores = F.npx.batch_dot(q, k, transpose_b=True) / 2
        weights = F.npx.softmax(F.np.where(scores > -1, scores, F.np.full_like(scores, -1e6)), axis=-1)
        y = F.npx.reshape(F.npx.batch_dot(weights, v), (-6, -1, self._heads, -4))
        y = F.npx.reshape(F.np.transpose(y, (0, 2, 1, 3)), (-2, -2, -1))
        return self.norm(x + self.last(y)), F.np.mean(weights, axis=(1, 2)), F.np.argmax(weights, axis=-1)


def networks():
    npx.set_np()
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, 2, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(2, 2))
    net.add(nn.Conv2D(8, 3, 1, 1, groups=8), nn.Swish(), nn.LeakyReLU(0.1), nn.Conv2DTranspose(4, 2, 2))
    net.add(nn.AvgPool2D(2, 2), nn.Activation("tanh"), nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(4))
    exported("networks conv", net, noise(2, 3, 16, 16))
    exported("networks attention", Attention(), noise(2, 5, 12))


if __name__ == "__main__":
    for make in (of_two, of_one, reductions, matrices, shapes, creation, selection, networks):
        make()
    save(Path(__file__).with_name("numpy.npz"))
