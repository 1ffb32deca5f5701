"""Make the files of this folder with other people's converters: `python make.py FOLDER`.

It needs tensorflow==2.19.0, tf2onnx==1.17.0, onnx2tf==1.29.24 and onnx==1.19.1. The weights are seeded. `net.h5`
is a Keras network, and `net.tf2onnx.onnx` what tf2onnx makes of it. `net.onnx` is an ONNX network, and
`net.onnx2tf.pb` the graph that onnx2tf makes of it. Both converters fold BatchNorm into Conv and rename the
nodes.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import tensorflow as tf
import tf2onnx
from onnx import TensorProto, helper, numpy_helper
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    """Return seeded values that keep the scale of activations, or make it smaller."""
    return (RANDOM.standard_normal(shape) / np.sqrt(max(shape[0], np.prod(shape[1:])))).astype(np.float32)


def keras_network() -> tf.keras.Model:
    """Return a network with the usual blocks, whose statistics are not those of initialization."""
    k = tf.keras.layers
    x = inputs = tf.keras.Input((16, 16, 3), name="picture")
    x = k.Conv2D(8, 3, padding="same", strides=2, use_bias=False, name="conv1")(x)
    x = k.BatchNormalization(epsilon=1e-3, name="bn1")(x)
    x = k.ReLU(name="relu1")(x)
    y = k.DepthwiseConv2D(3, padding="same", use_bias=False, name="depthwise")(x)
    y = k.BatchNormalization(epsilon=1e-3, name="bn2")(y)
    y = k.ReLU(6.0, name="relu2")(y)
    y = k.Conv2D(8, 1, name="pointwise")(y)
    x = k.Add(name="sum")([x, y])
    x = k.MaxPooling2D(2, name="pool")(x)
    x = k.Flatten(name="flat")(x)
    x = k.Dropout(0.5, name="drop")(x)
    model = tf.keras.Model(inputs, k.Dense(5, activation="softmax", name="scores")(x), name="net")
    for layer in model.layers:
        weights = [
            normal(*w.shape) if w.ndim > 1 else RANDOM.uniform(0.5, 1.5, w.shape) for w in layer.get_weights()
        ]
        layer.set_weights(weights)
    return model


def onnx_network() -> onnx.ModelProto:
    """Return a network with the usual blocks, channels-first."""
    weights: dict[str, np.ndarray] = {}
    nodes = []

    def add(op: str, name: str, *inputs: str, **attrs: object) -> str:
        nodes.append(helper.make_node(op, inputs, [name], name, **attrs))
        return name

    def weight(name: str, value: np.ndarray) -> str:
        weights[name] = value
        return name

    def norm(name: str, x: str) -> str:
        parts = [weight(f"{name}.{k}", RANDOM.uniform(0.5, 1.5, 8).astype(np.float32)) for k in "sbmv"]
        return add("BatchNormalization", name, x, *parts, epsilon=1e-5)

    x = add("Conv", "conv1", "x", weight("conv1.w", normal(8, 3, 3, 3)), pads=[1, 1, 1, 1], strides=[2, 2])
    x = add("Relu", "relu1", norm("bn1", x))
    y = add("Conv", "depthwise", x, weight("depthwise.w", normal(8, 1, 3, 3)), pads=[1, 1, 1, 1], group=8)
    y = add("Relu", "relu2", norm("bn2", y))
    y = add("Conv", "pointwise", y, weight("pointwise.w", normal(8, 8, 1, 1)))
    x = add("Add", "sum", x, y)
    x = add("MaxPool", "pool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = add("Flatten", "flat", x)
    x = add("Gemm", "logits", x, weight("w", normal(5, 128)), weight("b", normal(5)), transB=1)
    add("Softmax", "scores", x)
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 5])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    model = keras_network()
    model.save(folder / "net.h5")
    spec = (tf.TensorSpec((1, 16, 16, 3), tf.float32, name="picture"),)
    tf2onnx.convert.from_function(
        tf.function(lambda picture: model(picture, training=False), input_signature=spec),
        spec,
        opset=17,
        output_path=str(folder / "net.tf2onnx.onnx"),
    )
    network = onnx_network()
    onnx.save(network, folder / "net.onnx")
    with TemporaryDirectory() as work:  # onnx2tf changes its input, and looks there for pictures to try
        onnx.save(network, f"{work}/net.onnx")
        pictures = np.zeros((20, 128, 128, 3), np.float32)
        np.save(f"{work}/calibration_image_sample_data_20x128x128x3_float32.npy", pictures)
        subprocess.run(["onnx2tf", "-i", "net.onnx", "-o", "saved", "-osd", "-n"], check=True, cwd=work)
        function = tf.saved_model.load(f"{work}/saved").signatures["serving_default"]
        graph = convert_variables_to_constants_v2(function).graph.as_graph_def()
    (folder / "net.onnx2tf.pb").write_bytes(graph.SerializeToString())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
