"""Make networks.npz: quantized networks of Keras, and what the interpreter computes, as in make_operators.py.

python make_networks.py    (needs tensorflow, and what make_operators.py needs; made with tensorflow 2.21)
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from make_operators import run, save
from tensorflow import keras

L, T = keras.layers, tf.lite


def mobile():
    """Return a classifier with depthwise convolutions, sums, pooling, a concatenation and a softmax."""

    def block(x, channels, stride):
        y = L.ReLU(6.0)(L.BatchNormalization()(L.DepthwiseConv2D(3, stride, padding="same", use_bias=False)(x)))
        return L.BatchNormalization()(L.Conv2D(channels, 1, use_bias=False)(y))

    x = first = L.Input((32, 32, 3))
    x = L.ReLU(6.0)(L.BatchNormalization()(L.Conv2D(8, 3, 2, padding="same", use_bias=False)(x)))
    x = L.Add()([x, block(x, 8, 1)])
    x = block(x, 12, 2)
    x = L.Concatenate()([L.AveragePooling2D(2)(x), L.MaxPooling2D(2)(x)])
    x = L.GlobalAveragePooling2D()(L.Conv2D(16, 3, padding="same", activation="relu")(x))
    return keras.Model(first, L.Softmax()(L.Dense(10)(x)))


def unet():
    """Return a network from images to images, with resizing, a transposed convolution and a gate."""
    first = L.Input((16, 16, 3))
    a = L.Conv2D(8, 3, padding="same", activation="relu")(first)
    b = L.LeakyReLU()(L.Conv2D(12, 3, 2, padding="same")(a))
    c = L.Conv2D(12, 3, 2, padding="same", activation="swish")(b)
    d = L.Concatenate()([L.UpSampling2D(2, interpolation="bilinear")(c), b])
    d = L.Add()([L.Conv2DTranspose(8, 3, 2, padding="same", activation="relu")(d), a])
    gate = L.Conv2D(8, 1, activation="sigmoid")(L.GlobalAveragePooling2D(keepdims=True)(d))
    return keras.Model(first, L.Conv2D(1, 1, activation="sigmoid")(L.Multiply()([d, gate])))


def converted(model, kind):
    """Return the bytes of a quantized network."""
    converter = T.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [T.Optimize.DEFAULT]
    noise = np.random.default_rng(0).uniform(-1, 1, (30, 1, *model.input_shape[1:])).astype(np.float32)
    if kind != "dynamic":
        converter.representative_dataset = lambda: ([x] for x in noise)
    if kind in ("int8", "uint8"):
        converter.target_spec.supported_ops = [T.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = getattr(tf, kind)
    if kind == "int16":
        ops = T.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
        converter.target_spec.supported_ops = [ops]
    return converter.convert()


def main():
    keras.utils.set_random_seed(1)
    random, cases = np.random.default_rng(2), []
    for build, kinds in ((mobile, ("int8", "uint8", "int16", "dynamic")), (unet, ("int8", "int16", "dynamic"))):
        model = build()
        for w in model.weights:
            if "variance" in w.path:
                w.assign(random.uniform(0.5, 2, w.shape))
            elif any(name in w.path for name in ("mean", "beta", "bias")):
                w.assign(random.normal(0, 0.3, w.shape))
        for kind in kinds:
            stored = converted(model, kind)
            runner = T.Interpreter(model_content=stored)
            (detail,) = runner.get_input_details()
            x = random.uniform(-1, 1, detail["shape"]).astype(np.float32)
            scale, zero = detail["quantization"]
            if scale:
                limits = np.iinfo(detail["dtype"])
                x = np.clip(np.round(x / scale) + zero, limits.min, limits.max).astype(detail["dtype"])
            inputs = {detail["name"]: x}
            cases.append(
                {
                    "name": f"{build.__name__} {kind}",
                    "model": stored,
                    "inputs": inputs,
                    "outputs": run(stored, inputs),
                }
            )
    save("networks.npz", cases)


if __name__ == "__main__":
    main()
