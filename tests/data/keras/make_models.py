"""Save small models with real Keras, each with its inputs and outputs: NAME.<form> and NAME.npz.

Run with a Python that has tensorflow-cpu and tf_keras: python make_models.py. Each model is saved as .keras and
.h5, some also as JSON with weights. The names of Keras 2 models begin with k2.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
import tf_keras

HERE = Path(__file__).parent
noise = np.random.default_rng(0)


def picture(*shape: int) -> Any:
    return noise.uniform(-1, 1, shape).astype(np.float32)


def nested(k: Any) -> tuple[Any, list[Any]]:
    """Return nested models, one of them called twice, with a shared layer, two inputs and three outputs."""
    layers = k.layers
    image, more = layers.Input((6, 6, 3), name="image"), layers.Input((6, 6, 3), name="more")
    inner = k.Sequential(
        [
            layers.Input((6, 6, 3)),
            layers.Conv2D(4, 3, name="c"),
            layers.BatchNormalization(name="b"),
            layers.Dropout(0.1),
        ],
        name="inner",
    )
    begin = layers.Input((4, 4, 4))
    y = layers.BatchNormalization(name="fb")(layers.Conv2D(4, 1, name="fc")(begin))
    pair = k.Model(begin, [y, layers.ReLU(1.0)(y)], name="pair")
    shared = layers.Conv2D(2, 1, name="shared")
    a, b = inner(image), inner(more)
    p, q = pair(a)
    r, s = shared(p), shared(q)
    total = layers.Add()([r, s])
    both = layers.Concatenate(name="both")([total, b])
    last = layers.Dense(3, activation="softmax", name="last")(layers.GlobalAveragePooling2D()(both))
    return k.Model([image, more], [last, both, p]), [picture(2, 6, 6, 3), picture(2, 6, 6, 3)]


def text(k: Any) -> tuple[Any, list[Any]]:
    """Return a model of token sequences with a mask that several layers propagate."""
    layers = k.layers
    model = k.Sequential(
        [
            layers.Input((6,), dtype="int32"),
            layers.Embedding(9, 4, mask_zero=True),
            layers.Dropout(0.2),
            layers.Bidirectional(layers.LSTM(3, return_sequences=True)),
            layers.LayerNormalization(),
            layers.TimeDistributed(layers.Dense(3, activation="relu")),
            layers.GRU(3, return_sequences=True),
            layers.GlobalAveragePooling1D(),
            layers.Dense(2, activation="sigmoid"),
        ]
    )
    return model, [np.array([[1, 2, 3, 0, 0, 0], [4, 5, 0, 6, 7, 8]], np.int32)]


def text_branches(k: Any) -> tuple[Any, list[Any]]:
    """Return a model of token sequences with a mask and branches."""
    layers = k.layers
    tokens = layers.Input((5,), dtype="int32", name="tokens")
    x = layers.Embedding(9, 4, mask_zero=True)(tokens)
    y = layers.LSTM(3, return_sequences=True)(x)
    z = layers.Concatenate()([x, y])
    return k.Model(tokens, [layers.GRU(2)(z), y]), [np.array([[1, 2, 0, 3, 0], [4, 5, 6, 7, 8]], np.int32)]


def old_functions(k: Any) -> tuple[Any, list[Any]]:
    """Return a model of functions that differ between Keras 2 and 3."""
    layers = k.layers
    model = k.Sequential([layers.Input((4,)), layers.Dense(5, activation="hard_sigmoid"), layers.LeakyReLU()])
    return model, [5 * picture(2, 4)]


def operations(k: Any) -> tuple[Any, list[Any]]:
    """Return a model of calls of keras.ops."""
    o, layers = k.ops, k.layers
    x, n = layers.Input((4, 6), name="x"), layers.Input((4,), dtype="int32", name="n")
    s = o.sigmoid(x) + 0.5
    outputs = [
        x + 1.0,
        1.0 - x,
        x * 2,
        x / 3.0,
        2.0 / s,
        s**2.0,
        -x,
        o.abs(x),
        o.exp(x),
        o.log(s),
        o.sqrt(s),
        o.rsqrt(s),
        o.square(x),
        o.maximum(x, 0.1),
        o.minimum(x, s),
        o.clip(x, -0.5, 0.5),
        o.where(x > 0.0, x, s),
        o.cast(x > 0.0, "float32"),
        o.cast(n, "float32"),
        o.floor(3.0 * x),
        o.relu(x),
        o.relu6(8.0 * x),
        o.leaky_relu(x),
        o.elu(x),
        o.gelu(x),
        o.gelu(x, approximate=False),
        o.silu(x),
        o.softplus(x),
        o.tanh(x),
        o.erf(x),
        o.hard_sigmoid(4.0 * x),
        o.softmax(x, axis=1),
        o.log_softmax(x),
        o.sum(x, axis=1),
        o.mean(x, axis=[1, 2], keepdims=True),
        o.max(x, axis=-1),
        o.min(x, axis=1),
        o.prod(x, axis=2),
        o.var(x, axis=1),
        o.std(x, axis=1),
        o.logsumexp(x, axis=1),
        o.argmax(x, axis=-1),
        o.normalize(x, axis=-1),
        o.reshape(x, (-1, 12)),
        o.transpose(x, (0, 2, 1)),
        o.swapaxes(x, 1, 2),
        o.expand_dims(x, 1),
        o.squeeze(o.expand_dims(x, 1), 1),
        o.concatenate([x, s], axis=1),
        o.stack([x, s], axis=1),
        o.split(x, 2, axis=2)[1],
        o.split(x, [1, 4], axis=2)[1],
        o.flip(x, axis=1),
        o.repeat(x, 2, axis=1),
        o.tile(x, (1, 2, 1)),
        o.pad(x, [[0, 0], [1, 2], [0, 0]]),
        o.pad(x, [[0, 0], [1, 2], [0, 0]], mode="reflect"),
        o.take(x, [0, 2], axis=1),
        o.one_hot(n, 5),
        x[:, 1:3, ::2],
        x[:, 0],
        x[..., -1],
        x[:, None],
        o.matmul(x, o.transpose(s, (0, 2, 1))),
        o.einsum("bij,bkj->bik", x, s),
        o.unstack(x, axis=1)[2],
        o.max_pool(x, 2, padding="same"),
        o.average_pool(x, 3, strides=1, padding="same"),
        o.image.resize(o.expand_dims(x, -1), (8, 3)),
        o.logical_and(x > 0.0, s > 0.6),
    ]
    return k.Model([x, n], outputs), [picture(2, 4, 6), np.array([[0, 1, 2, 3], [4, 0, 1, 2]], np.int32)]


def more_operations(k: Any) -> tuple[Any, list[Any]]:
    """Return a model of further calls of keras.ops: sorting, norms, sums along an axis, images and others."""
    o, layers = k.ops, k.layers
    x, n, pic = (
        layers.Input((4, 6), name="x"),
        layers.Input((4,), dtype="int32", name="n"),
        layers.Input((5, 6, 3)),
    )
    fixed = layers.Input(batch_shape=(2, 4, 6), name="fixed")
    s = o.sigmoid(x) + 0.5
    one = np.linspace(0.5, 1, 4, dtype="float32")
    holes = o.where(x > 0.5, o.log(x - 0.7), x)  # NaN between 0.5 and 0.7
    broken = o.where(x > 0.0, x / 0.0, holes)  # also infinity
    outputs = [
        *o.top_k(x, 3),
        o.top_k(n, 2)[1],
        o.sort(x),
        o.sort(n, axis=1),
        o.argsort(x, axis=1),
        o.argsort(-x),
        o.cumsum(x, axis=1),
        o.cumsum(n, axis=-1),
        o.cumsum(x > 0.0, axis=2),
        o.cumsum(x),
        o.cumprod(s, axis=2),
        o.take_along_axis(x, o.argsort(x, axis=1), axis=1),
        o.take_along_axis(x, o.expand_dims(n, 2), axis=2),
        o.norm(x, axis=-1),
        o.norm(x, axis=(1, 2), keepdims=True),
        o.norm(x, ord=1, axis=2),
        o.norm(x, ord="fro", axis=(1, 2)),
        o.norm(x, ord=float("inf"), axis=1),
        o.norm(x, ord=3, axis=1),
        o.normalize(x, axis=-1, order=1),
        o.normalize(x, axis=1, order=3),
        o.isnan(holes),
        o.isinf(broken),
        o.isfinite(broken),
        o.nan_to_num(broken, nan=2.0, posinf=3.0, neginf=-3.0),
        o.nan_to_num(holes),
        o.logical_xor(x > 0.0, s > 0.6),
        o.logical_or(x > 0.0, s > 0.6),
        o.isclose(x, s, rtol=0.5),
        o.median(x, axis=1),
        o.median(x, axis=(1, 2), keepdims=True),
        o.quantile(x, [0.2, 0.7], axis=1),
        o.quantile(x, 0.3, axis=2, keepdims=True),
        o.nanmean(holes, axis=1),
        o.nansum(holes, axis=1),
        o.nanmax(holes, axis=2),
        o.ptp(x, axis=1),
        o.count_nonzero(o.relu(x), axis=2),
        o.sum(n, axis=1),
        o.mean(x),
        o.argmax(x),
        o.sort(fixed, axis=None),
        o.argsort(fixed, axis=None),
        o.softmax(fixed, axis=None),
        o.log_softmax(fixed, axis=None),
        o.floor(n) / 2,
        o.average(x, axis=1, weights=np.arange(1, 5, dtype="float32")),
        o.average(x, axis=2, weights=s),
        *o.moments(x, axes=[1]),
        o.diff(x, axis=1),
        o.diff(x, n=2),
        o.arctan2(x, s),
        o.arcsinh(x),
        o.arctanh(0.9 * x),
        o.arccosh(1.0 + s),
        o.exp2(x),
        o.cbrt(x),
        o.logaddexp(x, s),
        o.hypot(x, s),
        o.fmod(3.0 * x, s),
        o.divide_no_nan(x, o.relu(x)),
        o.sinc(x),
        o.heaviside(x, s),
        o.threshold(x, 0.2, -1.0),
        o.sparse_plus(2.0 * x),
        o.sparse_sigmoid(2.0 * x),
        o.bitwise_and(n, n[:, ::-1]),
        o.right_shift(n, o.ones_like(n)),
        o.select([x > 0.5, x > 0.0], [x, 2.0 * x], 0.25),
        o.searchsorted(np.array([-0.5, 0.0, 0.5], np.float32), x[0, 0]),
        o.digitize(x, np.array([-0.5, 0.0, 0.5])),
        o.hstack([x, s]),
        o.append(x, s, axis=1),
        *o.meshgrid(x[0, 0], s[0, 1]),
        o.slice(fixed, (0, 1, 2), (2, 2, 3)),
        o.slice_update(fixed, (0, 1, 2), fixed[:, :2, :3]),
        o.scatter_update(fixed[0], [[1, 2], [3, 0]], fixed[0, 0, :2]),
        o.scatter([[1], [3], [1]], fixed[0, :3], (5, 6)),
        o.diagonal(x, 1, 1, 2),
        o.trace(x, 0, 1, 2),
        o.rot90(x, axes=(1, 2)),
        o.full_like(x, 2),
        o.ones_like(x, dtype="int32"),
        o.multi_hot(n, 5),
        o.one_hot(n - 2, 3, dtype="int32"),
        o.cross(x[:, :, :3], s[:, :, 3:]),
        o.inner(x[0], s[1]),
        o.layer_normalization(x, np.arange(1, 7, dtype="float32"), np.arange(6, dtype="float32")),
        o.layer_normalization(x, np.arange(1, 5, dtype="float32"), axis=1, epsilon=0.01),
        o.rms_normalization(x, np.arange(1, 7, dtype="float32")),
        o.batch_normalization(x, one, 2 * one, 1, offset=3 * one, scale=4 * one),
        o.image.pad_images(pic, 1, 2, target_height=8, right_padding=0),
        o.image.crop_images(pic, 1, 2, target_height=3, target_width=2),
        o.image.rgb_to_grayscale(pic),
        o.image.extract_patches(pic, 2),
        o.image.extract_patches(pic, (2, 3), strides=(2, 1), padding="same"),
        o.image.extract_patches(pic, 2, strides=1, dilation_rate=2),
        o.image.resize(pic, (7, 4), interpolation="bicubic"),
    ]
    stored = [
        picture(2, 4, 6),
        np.array([[0, 1, 2, 3], [4, 0, 1, 2]], np.int32),
        picture(2, 5, 6, 3),
        picture(2, 4, 6),
    ]
    return k.Model([x, n, pic, fixed], outputs), stored


def tf_functions(k: Any) -> tuple[Any, list[Any]]:
    """Return a model of calls of TensorFlow functions."""
    x = k.layers.Input((4, 6), name="x")
    s = tf.nn.sigmoid(x) + 0.5
    outputs = [
        1.0 - x,
        x - 1.0,
        x * 2,
        x / 3.0,
        2.0 / s,
        x * s,
        x - s,
        s**2.0,
        -x,
        tf.abs(x),
        tf.exp(x),
        tf.math.log(s),
        tf.sqrt(s),
        tf.math.rsqrt(s),
        tf.square(x),
        tf.maximum(x, 0.1),
        tf.minimum(x, s),
        tf.clip_by_value(x, -0.5, 0.5),
        tf.nn.relu(x),
        tf.nn.relu6(8.0 * x),
        tf.nn.leaky_relu(x, alpha=0.1),
        tf.nn.elu(x),
        tf.nn.silu(x),
        tf.nn.softmax(x, axis=1),
        tf.nn.softplus(x),
        tf.tanh(x),
        tf.reduce_mean(x, axis=[1, 2], keepdims=True),
        tf.reduce_sum(x, axis=1),
        tf.reduce_max(x, axis=-1),
        tf.math.l2_normalize(x, axis=-1),
        tf.concat([x, s], axis=1),
        tf.stack([x, s], axis=1),
        tf.split(x, 2, axis=2)[1],
        tf.split(x, [1, 2, 3], axis=2)[1],
        tf.unstack(x, axis=1)[2],
        tf.reshape(x, (-1, 12)),
        tf.transpose(x, (0, 2, 1)),
        tf.expand_dims(x, 1),
        tf.squeeze(tf.expand_dims(x, 1), 1),
        tf.tile(x, (1, 2, 1)),
        tf.pad(x, [[0, 0], [1, 2], [0, 0]]),
        tf.matmul(x, s, transpose_b=True),
        tf.image.resize(tf.expand_dims(x, -1), (8, 3)),
        tf.nn.depth_to_space(tf.reshape(x, (-1, 2, 3, 4)), 2),
        x[:, 1:3, ::2],
        x[:, 0],
        x[:, :, -1],
    ]
    return k.Model(x, outputs), [picture(2, 4, 6)]


def steps(k: Any) -> tuple[Any, list[Any]]:
    """Return a model that applies another model to each step."""
    layers = k.layers
    inner = k.Sequential([layers.Input((3,)), layers.Dense(4), layers.BatchNormalization(), layers.Dense(2)])
    x = layers.Input((5, 3), name="x")
    return k.Model(x, layers.LSTM(2)(layers.TimeDistributed(inner)(x))), [picture(2, 5, 3)]


def stacked_cells(k: Any) -> tuple[Any, list[Any]]:
    """Return a model whose cells are not in the alphabetical order of their classes."""
    layers = k.layers
    x = layers.Input((5, 3), name="x")
    mixed = [layers.LSTMCell(4), layers.GRUCell(3), layers.LSTMCell(3)]
    y = layers.RNN(mixed, return_sequences=True)(x)
    return k.Model(x, [y, layers.RNN([layers.SimpleRNNCell(4), layers.GRUCell(4)])(y)]), [picture(2, 5, 3)]


def inputs_by_name(k: Any) -> tuple[Any, list[Any]]:
    """Return a model with an inner model that takes a dict."""
    layers = k.layers
    a, b = layers.Input((3,), name="zebra"), layers.Input((3,), name="apple")
    inner = k.Model({"zebra": a, "apple": b}, layers.Subtract()([a, b]))
    p, q = layers.Input((3,), name="p"), layers.Input((3,), name="q")
    return k.Model([p, q], inner({"zebra": p, "apple": q})), [picture(2, 3), picture(2, 3)]


MODELS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "nested": (keras, nested),
    "text": (keras, text),
    "text_branches": (keras, text_branches),
    "old_functions": (keras, old_functions),
    "operations": (keras, operations),
    "more_operations": (keras, more_operations),
    "inputs_by_name": (keras, inputs_by_name),
    "steps": (keras, steps),
    "stacked_cells": (keras, stacked_cells),
    "k2_nested": (tf_keras, nested),
    "k2_text": (tf_keras, text),
    "k2_text_branches": (tf_keras, text_branches),
    "k2_old_functions": (tf_keras, old_functions),
    "k2_steps": (tf_keras, steps),
    "k2_stacked_cells": (tf_keras, stacked_cells),
    "k2_tf_functions": (tf_keras, tf_functions),
}


def main(names: list[str]) -> None:
    for name in names or MODELS:
        k, make = MODELS[name]
        noise.bit_generator.state = np.random.default_rng(0).bit_generator.state
        k.utils.set_random_seed(0)
        k.backend.clear_session()
        model, inputs = make(k)
        weights = [noise.uniform(0.5 if "variance" in w.name else -1, 1, w.shape) for w in model.weights]
        model.set_weights([w.astype(np.float32) for w in weights])
        outputs = [np.asarray(y) for y in tf.nest.flatten(model(inputs, training=False))]
        model.save(HERE / f"{name}.keras")
        model.save(HERE / f"{name}.h5")
        if name == "k2_nested":
            model.save_weights(str(HERE / f"{name}_weights.h5"))
        if name.endswith("nested"):
            (HERE / f"{name}.json").write_text(model.to_json())
            model.save_weights(str(HERE / f"{name}.weights.h5"))
        stored = {f"in{i}": x for i, x in enumerate(inputs)} | {f"out{i}": y for i, y in enumerate(outputs)}
        np.savez_compressed(HERE / f"{name}.npz", **stored)
        print(name, sum(p.stat().st_size for p in HERE.glob(f"{name}.*")), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
