"""Expressions that must give NumPy's results when they are traced, by the dtypes of x, y and v.

x is (2, 3, 4), y (3, 4), v (4,) and s (6, 6), all of the dtype. p is like x, but positive. m is a mask of the
shape of x. k holds three indices below 3, and i is a (2, 3, 4) array of indices below 4 along the last axis.
"""

from __future__ import annotations

ALL = "f4 f8 f2 i4 i8 i2 i1 u1 u2 u4 bool"
NUMBERS = "f4 f8 f2 i4 i8 i2 i1 u1 u2 u4"
FEW = "f4 i8 u1 bool"
FLOATS = "f4 f8 f2"
SOME = "f4 i4"
F4 = "f4"
INTS = "i4 i8 i2 i1 u1 u2 u4"

EXPRESSIONS: dict[str, list[str]] = {
    ALL: """
x + y
x * v
x == y
x != y
x < y
x <= y
x > y
x >= y
y == 1
v < 2
np.maximum(x, y)
np.minimum(x, v)
np.logical_and(x, y)
np.logical_or(x, v)
np.logical_xor(x, y)
np.logical_not(x)
np.sum(x)
x.sum(axis=(0, 2))
x.prod(-1)
x.max(axis=1)
x.min(axis=(0, 1), keepdims=True)
x.mean(axis=0)
x.any(axis=1)
x.all()
np.cumsum(x, axis=1)
np.argmax(x, axis=2)
x.argmin(1)
np.where(m, x, y)
np.where(x > y, x, v)
x.astype(np.float32)
x.astype(np.int64)
x.astype(bool)
np.concatenate([x, x], axis=1)
np.stack([y, y * y], axis=-1)
x[:, ::2]
x[1]
x[:, k]
x.reshape(4, -1)
x.transpose(2, 0, 1)
np.pad(x, 1)
np.sort(x, axis=-1)
np.argsort(x, axis=1, kind="stable")
np.take_along_axis(x, i, 2)
np.clip(x, 0, 1)
x.clip(y, v)
x @ y.T
x ** 2
np.repeat(x, 2, axis=1)
np.tile(y, (2, 1))
np.flip(x, 1)
np.tril(s)
np.diag(v)
np.count_nonzero(x, axis=0)
x - x.astype(np.float32)
2.5 * x
x * True
np.isfinite(x)
np.absolute(x)
np.expand_dims(x, 1)
np.zeros_like(x)
np.square(x)
np.einsum("ijk,jk->i", x, y)
np.dot(x, v)
""".strip().split("\n"),
    NUMBERS: """
x - y
-x
x / (p + 1)
x // p
x % p
np.fmod(x, p)
abs(x)
np.sign(x)
3 - x
x * 2
x + 1.5
np.reciprocal(p)
np.sqrt(p)
np.exp(y)
np.floor(x)
np.ceil(x)
np.trunc(x)
np.rint(x)
np.var(x, axis=1)
np.std(x, axis=(0, 2), ddof=1)
divmod(x, p)[0]
divmod(x, p)[1]
np.power(p, 2)
np.positive(x)
np.diff(x, axis=1)
np.ptp(x, axis=0)
np.add.reduce(x)
np.maximum.accumulate(x, axis=1)
np.multiply.outer(v, y)
np.subtract.outer(v, v)
np.isin(x, [1, 2])
np.round(x)
np.median(x, axis=1)
np.average(x, axis=1, weights=np.array([1, 2, 3]))
x // 2
x % 3
7 % p
np.linalg.norm(x, axis=1)
""".strip().split("\n"),
    INTS: """
x & y
x | v
x ^ y
~x
x << 2
x >> 1
x ** 3
np.left_shift(x, np.abs(y) % 4)
np.bitwise_and.reduce
""".strip().split("\n")[:-1],
    FLOATS: """
np.exp(-abs(x))
np.log(p)
np.log2(p)
np.log10(p)
np.log1p(p)
np.expm1(x)
np.exp2(x)
np.sin(x)
np.cos(x)
np.tan(x)
np.arcsin(np.clip(x, -1, 1))
np.arccos(np.clip(x, -1, 1))
np.arctan(x)
np.sinh(x)
np.cosh(x)
np.tanh(x)
np.arcsinh(x)
np.arccosh(p + 1)
np.arctanh(np.clip(x, -0.9, 0.9))
np.arctan2(x, y)
np.hypot(x, y)
np.logaddexp(x, y)
np.logaddexp2(x, y)
np.copysign(x, y)
np.heaviside(x, 0.5)
np.fmax(x, y)
np.fmin(x, y)
np.cbrt(x)
np.deg2rad(x)
np.rad2deg(x)
np.radians(x)
np.degrees(x)
np.isnan(x)
np.isinf(x)
np.signbit(x)
np.fabs(x)
np.float_power(p, 2)
np.modf(x)[0]
np.modf(x)[1]
np.ldexp(x, 2)
np.sinc(x)
np.nan_to_num(x)
x ** 0.5 if False else p ** 0.5
p ** -1
p ** 0.75
p ** -0.75
x ** 3
x ** 0
2.0 ** x
p ** y
x / 3
1 / p
x // 0.7
x % 0.7
np.round(x, 2)
np.around(x * 100, -1)
np.fix(x * 3)
x.round()
np.linalg.norm(x)
np.cumsum(x)
np.float32(2) * x
np.float64(2) * x
np.array([1.0, 2.0, 3.0, 4.0], np.float32) * x
x + np.zeros(4)
np.sqrt(2) * x
np.isclose(x, x + 1e-9)
np.quantile(x, 0.3, axis=1)
np.percentile(x, [10, 50, 90], axis=2)
np.interp(x, [-1.0, 0.0, 1.0], [3.0, 5.0, 4.0])
""".strip().split("\n"),
    "f4 i4 u1 bool": """
x[5]
x[0, 0, 0, 0]
x[:, [3]]
x["a"]
x[1.0]
x[np.array([True, False, True])]
x[..., ...]
x.reshape(5, 5)
x.reshape(-1, 7)
x.reshape(-1, -1)
x.transpose(0, 1)
x.transpose(0, 0, 1)
x.swapaxes(0, 3)
x.sum(axis=3)
x.sum(axis=(0, 0))
x.squeeze(0)
np.squeeze(x, 1)
np.expand_dims(x, 5)
np.broadcast_to(x, (2, 3))
np.split(x, 2, axis=1)
np.concatenate([x, y])
np.concatenate([x, x[:, :2]], axis=0)
np.stack([x, y])
x + y[:2]
x @ x
v @ y
np.dot(x, y)
np.tensordot(x, y, 1)
np.einsum("ij,jk", y, y)
np.einsum("ijk", y)
np.take(x, 30)
np.take(x, [3], axis=1)
np.moveaxis(x, 0, [1, 2])
np.pad(y, -1)
np.max(x[:0], axis=0)
np.argmax(x[:0], axis=0)
np.take_along_axis(x, i[0], 2)
np.select([x > 0], [x, y])
np.repeat(x, [1, 2], axis=1)
len(x[0, 0, 0])
list(x[0, 0, 0])
np.linalg.norm(x, "fro")
x.astype(np.uint8, casting="safe")
x.no_such_attribute
np.tri(3) @ x
np.broadcast_arrays(x, y[:2])
np.clip(x)
""".strip().split("\n"),
    "u1": """
x + 300
x * -1
300 - x
x == 300
x < 300
x >= -1
x != -5
np.clip(x, -1, 300) if np.lib.NumpyVersion(np.__version__) >= "2.1.0" else x
np.clip(x, 1, 300) if np.lib.NumpyVersion(np.__version__) >= "2.1.0" else x
np.maximum(x, -1)
x + np.int8(-3)
x - y
x * y
~x
-x
x.sum() - 5
x / 2
x // 2
x % 2
np.sqrt(x)
x.astype(np.int8)
(x * 50).astype(np.int8)
(x * 2.7).astype(np.uint8)
(x * -2.7).astype(np.uint8)
(x * 100.5).astype(np.uint8)
x << 3
x >> 1
x ** 2
x ** 9
x ** -1
""".strip().split("\n"),
    "i4 i8": """
x // y
x % np.where(y == 0, 1, y)
np.fmod(x, np.where(y == 0, 1, y))
x % y
np.fmod(x, y)
p ** np.abs(y)
x ** -1
2 ** np.abs(x)
np.power(2, np.abs(x))
x / np.where(y == 0, 1, y)
x << np.abs(y)
x >> np.abs(y)
x.astype(np.uint8)
x.astype(np.int8)
x.astype(np.float16)
np.reciprocal(np.where(x == 0, 7, x))
-x // 3
-7 // p
x * 1000
np.floor_divide(x, -3)
""".strip().split("\n"),
    "bool": """
x - y
-x
x & y
x | v
x ^ y
~x
x * 1
x + 1
x + x
x.sum(axis=1)
np.where(x, 1.0, y)
x.any()
x.astype(np.uint8) * 255
np.diff(x, axis=1)
x @ x.swapaxes(1, 2)
np.sqrt(x)
np.logical_and.reduce(x, axis=1)
np.logical_or.reduce(x, axis=(1, 2))
np.logical_and.reduce(x)
x.mean()
x[:, ::-1]
x / 2
~x.all(axis=1)
np.choose(x, [0, y])
np.maximum.reduce(x, axis=0)
np.add.reduce(x, axis=0)
x.cumsum(1)
np.invert(x)
np.einsum("ij->", y)
np.not_equal(x, y)
x > 0
x.sum(dtype=bool)
np.prod(x, axis=1, dtype=np.float32)
""".strip().split("\n"),
    SOME: """
x[0]
x[-1]
x[..., 1]
x[:, 1:3]
x[:, 1:3, ::-1]
x[::-1, :, ::2]
x[..., None]
x[None, :, None]
x[1, 2, 3]
x[0, :, 1:]
x[:, [0, 2]]
x[:, [2, 0, 0]]
x[[0, 1]]
x[[1], :, [2, 3]]
x[:, [0, 2], [1, 3]]
x[[0, 1], :, [1, 3]]
x[0, :, [0, 1]]
x[:, [0, 2], :][:, :, [1, 3]]
x[[0, 1], None, [2, 0]]
x[:, None, [0, 1], [2, 3]]
x[np.ix_([0, 1], [2, 0], [1, 3, 3])]
x[:, np.array([[0, 1], [2, 0]])]
x[:, np.arange(3)[:, None], np.arange(4)]
x[:, [[0], [2]], [1, 3]]
x[np.array([True, False])]
x[:, np.array([True, False, True])]
x[np.arange(24).reshape(2, 3, 4) % 3 == 0]
x[np.array([[True, False, True], [False, True, True]])]
x[..., np.array(2)]
x[:, -1:]
x[:, 5:]
x[:, range(2)]
x[:, k]
x[:, k, k]
x[:, k % 3, [0, 1, 2]]
x[k % 2]
x[0, k]
x[..., k]
x[:, k[0]]
y[k[:, None], k]
x[x.argmax(0) % 2, 0, 1]
y[np.argmax(y, axis=0), np.arange(4)]
y[-1 - k]
np.take(x, [0, 2], axis=1)
np.take(x, k, axis=1)
np.take(x, 3)
np.take(x, [[0, 5], [7, 23]])
np.take(x, [5, -7], axis=2, mode="clip")
np.take(x, [5, -7], axis=2, mode="wrap")
x.take([1, 0], axis=0)
np.compress([True, False, True], x, axis=1)
np.take_along_axis(x, np.argsort(x, 2, kind="stable"), 2)
np.take_along_axis(x, np.expand_dims(np.argmax(x, 1), 1), 1)
np.take_along_axis(x, i[:1], 2)
x.reshape(-1)
x.reshape(6, 4)
x.reshape((3, 2, 4))
x.reshape(1, 24, 1)
np.reshape(x, (4, 6), order="F")
x.ravel()
x.ravel(order="F")
x.flatten()
x.T
x.mT
x.transpose()
x.transpose((0, 2, 1))
x.transpose(0, -1, 1)
np.transpose(x, (1, 0, 2))
x.swapaxes(0, 2)
np.moveaxis(x, 0, -1)
np.moveaxis(x, [0, 1], [2, 0])
np.rollaxis(x, 2)
np.rollaxis(x, 0, 3)
np.squeeze(x[:, :1])
x[:1].squeeze(0)
np.expand_dims(x, (0, 2))
np.atleast_2d(v)
np.atleast_3d(v)
np.atleast_3d(y)
np.broadcast_to(v, (2, 4))
np.broadcast_arrays(x, v)[1]
np.meshgrid(v, y[:, 0])[0]
np.meshgrid(v, y[:, 0], indexing="ij")[1]
np.meshgrid(v, v, sparse=True)[1]
np.flip(x)
np.flip(x, (0, 2))
np.fliplr(x)
np.flipud(x)
np.rot90(y)
np.rot90(y, 2)
np.rot90(y, 3)
np.rot90(x, 1, (1, 2))
np.split(x, 3, axis=1)[1]
np.split(x, [1, 3], axis=2)[1]
np.split(x, [1, 3], axis=2)[2]
np.array_split(x, 3, axis=2)[0]
np.hsplit(x, 3)[0]
np.vsplit(x, 2)[1]
np.dsplit(x, 2)[1]
np.diagonal(x, axis1=1, axis2=2)
np.diagonal(x, 1, 0, 2)
np.diagonal(y)
np.trace(x, axis1=1, axis2=2)
np.trace(s)
np.lib.stride_tricks.sliding_window_view(x, 2, axis=2)
np.lib.stride_tricks.sliding_window_view(x, (2, 3), axis=(1, 2))
np.concatenate([x, y[None]])
np.concatenate([x, y[None]], axis=None)
np.concatenate([x, np.ones((2, 3, 1), np.float32)], axis=-1)
np.concatenate((y, v[None]), 0)
np.stack([y, y])
np.stack([v, [1, 2, 3, 4]])
np.vstack([y, v])
np.hstack([y, y])
np.hstack([v, v])
np.dstack([y, y])
np.column_stack([v, v])
np.block([[y, y], [y, y]])
np.append(x, x)
np.append(y, y, axis=0)
np.insert(y, 1, v, axis=0)
np.delete(y, 1, axis=0)
np.delete(y, [0, 2], axis=1)
np.repeat(y, 3)
np.repeat(y, [1, 0, 2], axis=0)
np.tile(x, 2)
np.tile(v, (2, 3))
np.tile(y, (5, 5))
np.resize(y, (2, 7))
np.roll(x, 1)
np.roll(x, 2, axis=1)
np.roll(x, (1, -1), axis=(0, 2))
np.pad(y, ((1, 2), (0, 3)))
np.pad(y, 1, constant_values=7)
np.pad(y, ((1, 1), (2, 2)), constant_values=((1, 2), (3, 4)))
np.pad(y, 2, mode="edge")
np.pad(y, 2, mode="reflect")
np.pad(y, 5, mode="reflect")
np.pad(y, 2, mode="symmetric")
np.pad(y, 5, mode="wrap")
np.pad(y, [(1, 1)], mode="edge")
np.where(m, x, 0)
np.where(m, 1, 0)
np.where(m, x, 2.5)
np.where(x > 0, x, x * 2)
np.where([True, False, True, False], x, y)
np.where(True, x, y)
np.select([x > 1, x > 0], [x * 2, x], 5)
np.select([x > 1, x > 0], [x * 2.0, x])
np.choose(i % 3, [x, y, 7])
np.clip(x, 1, None)
np.clip(x, None, 2)
np.clip(x, None, v)
np.clip(x, y, y + 2)
np.clip(x, min=0, max=3)
x.clip(0, 2)
x.clip(max=1)
np.sort(x, axis=0)
np.sort(x, axis=None)
-np.sort(-x, axis=1)
np.argsort(-x, axis=-1, kind="stable")[..., :2]
np.partition(x, 1, axis=-1)[..., 1]
np.stack(np.unravel_index(v.argmax(), (2, 2)))
np.stack(np.unravel_index(i, (1, 5), order="F"))
np.unravel_index(m.argmax(1), (2, 2))[1]
np.searchsorted([-2, 0, 1, 3], x)
np.searchsorted([-2, 0, 1, 3], x, side="right")
np.digitize(x, [-1, 0, 2])
np.digitize(x, [2, 0, -1], right=True)
np.tril(y)
np.triu(y, 1)
np.tril(x, -1)
np.diag(s)
np.diag(v, 1)
np.diag(v, -2)
np.diagflat(y[:2, :2])
np.max(x)
np.max(x, axis=(0, 1, 2), keepdims=True)
np.amax(x, 0)
np.min(x, axis=1, initial=-1)
np.max(x, axis=1, initial=0, where=m)
np.sum(x, axis=1, initial=5)
np.sum(x, where=m)
np.sum(x, axis=1, keepdims=True, dtype=np.float64)
np.sum(x, axis=())
np.prod(x, axis=1)
np.any(x > 1, axis=(0, 1))
np.all(x > -5, axis=0, keepdims=True)
np.mean(x)
np.mean(x, axis=(1, 2), keepdims=True)
np.mean(x, axis=1, dtype=np.float32)
np.var(x)
np.var(x, axis=(0, 1), keepdims=True)
np.std(x, axis=2, ddof=1)
np.average(x)
np.average(x, axis=0)
np.cumsum(x, axis=2)
np.cumprod(x, axis=1)
np.cumulative_sum(x, axis=1, include_initial=True) if hasattr(np, "cumulative_sum") else x
np.add.accumulate(x, axis=1)
np.minimum.accumulate(y)
np.maximum.reduce(x, axis=1)
np.maximum.reduce(x)
np.add.reduce(x, axis=(1, 2), keepdims=True)
np.multiply.reduce(x, axis=1)
np.add.outer(v, v)
np.argmax(x)
np.argmin(x, axis=1, keepdims=True)
x.argmax()
np.diff(x)
np.diff(x, n=2)
np.diff(x, axis=1, prepend=0)
np.ediff1d(v)
np.gradient(x, axis=2)
np.trapezoid(x) if hasattr(np, "trapezoid") else x
np.kron(y, y[:2, :2])
np.outer(v, v)
np.inner(y, y)
np.inner(v, v)
np.vdot(v, v)
np.dot(y, v)
np.dot(v, v)
np.dot(y, y.T)
np.dot(y, x.transpose(0, 2, 1))
np.dot(x, 2)
v @ v
y @ v
x @ v
y.T @ y
x @ x.swapaxes(1, 2)
x.dot(v)
np.matmul(x, y.T)
np.tensordot(x, y, 2)
np.tensordot(x, y, ([1], [0]))
np.tensordot(x, x, ([0, 2], [0, 2]))
np.linalg.multi_dot([y, y.T, y])
np.einsum("ij,kj->ik", y, y)
np.einsum("ij->ji", y)
np.einsum("ij->j", y)
np.einsum("ij->", y)
np.einsum("ii->i", s)
np.einsum("ii", s)
np.einsum("bij,bkj->bik", x, x)
np.einsum("bij,bij->b", x, x)
np.einsum("...ij,jk->...ik", x, y.T)
np.einsum("ij,j->i", y, v)
np.einsum("i,j->ij", v, v)
np.einsum("i,i", v, v)
np.einsum("bij,jk,kl->bil", x, y.T, y)
np.einsum("bij,ij,j->bi", x, y, v)
np.einsum("nhd,mhd->hnm", x, x)
np.einsum(y, [0, 1], v, [1], [0])
np.cross(y[:, :3], y[:, 1:])
np.linalg.norm(y)
np.linalg.norm(x, axis=-1, keepdims=True)
np.linalg.norm(x, 1, axis=1)
np.linalg.norm(x, np.inf, axis=1)
np.linalg.norm(y, "fro")
np.linalg.norm(y, 1)
np.linalg.norm(x, axis=(1, 2))
np.linalg.vector_norm(x, axis=1)
np.linalg.matrix_transpose(x)
np.matrix_transpose(x)
np.array_equal(x, x)
np.array_equal(x, y)
np.allclose(x, x)
np.real(x)
x.real
x.conj()
np.copy(x)
x.copy()
np.ones_like(x)
np.full_like(x, 3)
np.full_like(x, 3, shape=(2, 2))
np.zeros((2, 2), np.float32, like=x) + v[:2]
np.asarray([1, 2, 3, 4], like=x) * v
np.arange(4, like=x) * v
np.eye(4, dtype=np.float32, like=x) @ v
np.polyval([1, 2, 3], x)
np.ravel(x)
np.shape(x)[0] * x
np.size(x) + x
x.size * x
x.ndim * x
len(x) * x
sum(x)
max(len(x), 2) * x
np.nansum(x)
np.nanmax(x, axis=1)
np.nanmean(x, axis=1)
[a for a in x][1]
np.stack([a * 2 for a in y])
(lambda a, b: a + b)(*x)
np.result_type(x, np.float32) == np.float32 and x
np.can_cast(x.dtype, "f8") * x
x if isinstance(x, np.ndarray) else -x
x.sum() if hasattr(x, "foo") else x
np.add(x, y, dtype=np.float64)
np.multiply(x, 2, out=np.zeros_like(x))
np.divide(x, 2.0, out=np.zeros_like(x, dtype=np.float64))
np.add(x, y, out=np.ones_like(x), where=m)
np.linalg.matrix_power(s, 3)
x[:, :2] + x[:, 1:]
x[..., ::-1].reshape(6, 4)
np.unstack(x)[1] if hasattr(np, "unstack") else x[1]
np.astype(x, np.float64) if hasattr(np, "astype") else x.astype(np.float64)
np.angle(x)
np.argpartition(x, 0, axis=1)[:, :1]
np.atleast_1d(x)
np.atleast_1d(x[0, 0, 0])
np.cumulative_prod(y, axis=1) if hasattr(np, "cumulative_prod") else x
np.imag(x)
np.iscomplex(x)
np.isreal(x)
np.isposinf(x / 1.0)
np.isneginf(x / 1.0)
np.real_if_close(x)
np.nanprod(y)
np.nanmin(x, axis=0)
np.nancumsum(x, axis=1)
np.vecdot(x, y)
np.linalg.vecdot(x, y)
np.matvec(x, v) if hasattr(np, "matvec") else x
np.vecmat(y[:, 0], x) if hasattr(np, "vecmat") else x
np.linalg.outer(v, v)
np.linalg.matmul(y, y.T)
np.linalg.trace(x)
np.linalg.diagonal(x)
np.linalg.tensordot(y, y.T, 1)
np.linalg.cross(y[:, :3], y[:, 1:])
np.linalg.norm(y, axis=0, keepdims=True, ord=3)
np.linalg.matrix_norm(x)
x.trace()
x.diagonal(0, 1, 2)
x.flat[3]
x.flat[::5]
np.stack(list(y.flat))
x.view()
x.round(1)
x.compress([0, 1], axis=0)
x.searchsorted if False else v.argsort(kind="stable")
x.std(axis=1, keepdims=True)
x.var()
x.repeat(2, 0)
x.squeeze()
x.cumprod(0)
x.choose if False else (x > 0).astype(int).choose([y, 5])
x.nbytes + x.itemsize * x
x.flags.c_contiguous * x
np.array_split(v, [1, 2])[1]
np.pad(v, {0: 2}) if np.lib.NumpyVersion(np.__version__) >= "2.4.0" else v
np.where(np.isnan(x), 0, x)
np.clip(x, 2, 1)
np.clip(x, v, y)
x + np.arange(4)
x + np.arange(4, dtype=np.float32)
np.arange(4) - x
np.float64(2) + x
np.int64(2) + x
np.float32(2) ** y
[1, 2, 3, 4] * x
x * [1.0, 2.0, 3.0, 4.0]
np.array(2) * x
True + x
x == 300
x < 1e10
(x > 0) * x
(x > 0) & (x < 2)
~(x > 0)
(x > 0).sum()
(x > 0).sum(1) / 3
(x > 0).mean()
1 - (x > 0)
np.multiply.reduce(x, axis=(0, 1))
np.logical_or.reduce(x > 1, axis=0)
np.fmax.accumulate(x, axis=1)
x.sum(1)[0] * 2
x.sum(1).sum()
x[:, 0].sum() + x
x.reshape(2, 12)[:, ::5]
x.transpose(0, 2, 1).reshape(2, -1)
x.reshape(2, 3, 2, 2).transpose(0, 2, 1, 3).reshape(2, 2, 6)
x[:, [2, 1, 0]]
x[:, [0, 2, 1], ::2]
x[:, :, [0, 2]][:, [1, 0]]
x[..., np.newaxis, :]
x[[[0, 1], [1, 0]], [[0, 2], [1, 1]]]
x[-1, -1]
x[[-1, 0]]
x[:, -3:-1]
x[:, 2:0:-1]
x[:, 10:1:-1]
x[:0]
x[()]
x[..., :0].sum()
np.concatenate([x[:0], x])
""".strip().split("\n"),
}


def cases() -> list[tuple[str, str]]:
    """Return all pairs (dtype, expression) without duplicates."""
    found: dict[tuple[str, str], None] = {}
    for dtypes, texts in EXPRESSIONS.items():
        for dtype in dtypes.split():
            for text in texts:
                found[dtype, text] = None
    return list(found)
