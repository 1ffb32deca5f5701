"""Freeze the networks that make.py saved, for other tools: NAME.pb, and NAME.onnx as tf2onnx converts it.

Run with a Python that has tensorflow-cpu and tf2onnx: python freeze.py FOLDER [NAME ...]. Existing files stay.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import tensorflow as tf
import tf2onnx
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2


def freeze(path: Path) -> None:
    """Freeze a network with a batch size of 1."""
    model = keras.saving.load_model(path, compile=False)
    shape = (1, *model.input_shape[1:])
    function = tf.function(lambda x: model(x, training=False))
    frozen = convert_variables_to_constants_v2(
        function.get_concrete_function(tf.TensorSpec(shape, tf.float32, name="x"))
    )
    graph = frozen.graph.as_graph_def()
    tf2onnx.convert.from_graph_def(
        graph,
        input_names=[frozen.inputs[0].name],
        output_names=[frozen.outputs[0].name],
        opset=18,
        output_path=str(path.with_suffix(".onnx")),
    )
    path.with_suffix(".pb").write_bytes(graph.SerializeToString())


def main(folder: Path, names: list[str]) -> None:
    """Freeze the networks that have no frozen file yet."""
    for name in names or sorted(p.stem for p in folder.glob("*.keras")):
        if not (folder / f"{name}.pb").exists():
            keras.backend.clear_session()
            freeze(folder / f"{name}.keras")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
