"""Make converted.npz: models that TensorFlow's converter wrote, and what they compute.

    python make_converted.py    (needs tensorflow and ai-edge-litert; the file was made with 2.21.0 and 2.3.0)

The file has the form of operators.npz.
"""

from __future__ import annotations

import re
from pathlib import Path

import flatbuffers
import numpy as np
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter
from make_operators import noise, run, save


def converted(function, arrays, optimizations=()):
    """Return the bytes of the model of a function of arrays, or of a layer of Keras."""
    if isinstance(function, tf.keras.layers.Layer):
        model = tf.keras.Sequential([tf.keras.Input(batch_shape=arrays[0].shape, name="in0"), function])
        converter = tf.lite.TFLiteConverter.from_keras_model(model)
        converter.optimizations = list(optimizations)
        return converter.convert()
    specs = [tf.TensorSpec(a.shape, a.dtype, name=f"in{i}") for i, a in enumerate(arrays)]
    concrete = tf.function(function).get_concrete_function(*specs)
    return tf.lite.TFLiteConverter.from_concrete_functions([concrete], function).convert()


def case(name, function, *arrays, optimizations=()):
    """Return a case of a function at some arrays."""
    stored = converted(function, arrays, optimizations)
    names = [d["name"] for d in Interpreter(model_content=stored).get_input_details()]
    given = {name: arrays[int(re.search(r"in(\d+)", name)[1])] for name in names}
    return {"name": name, "model": stored, "inputs": given, "outputs": run(stored, given)}


def control():
    x, one = noise(2, 3), np.float32(1)
    w = noise(3, 3, seed=1)
    yield case(
        "WHILE counted",
        lambda x: tf.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, tf.tanh(y @ w)), [0, x])[1],
        x,
    )
    yield case(
        "WHILE data",
        lambda x: tf.while_loop(lambda i, y: tf.reduce_sum(y) > 1.0, lambda i, y: (i + 1, y * 0.7), [0, x]),
        np.abs(x) * 9,
    )
    yield case(
        "WHILE both",
        lambda x: tf.while_loop(
            lambda i, y: tf.logical_and(i < 20, tf.reduce_max(y) < 4.0), lambda i, y: (i + 1, y * 1.5), [0, x]
        ),
        np.abs(x),
    )
    yield case(
        "WHILE limit", lambda x, n: tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y + x), [0, x])[1],
        x, np.int32(4),
    )  # fmt: skip
    for positive in (True, False):
        yield case(
            f"IF {positive}",
            lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: (x * 2, x[0]), lambda: (x - 1, x[1] * 3)),
            np.abs(x) * (one if positive else -one),
        )
    yield case("IF weights", lambda x: tf.cond(x[0, 0] > 0, lambda: x @ w, lambda: x @ w.T), x)
    yield case(
        "WHILE if",
        lambda x: tf.while_loop(
            lambda i, y: i < 4,
            lambda i, y: (i + 1, tf.cond(tf.reduce_sum(y) > 0, lambda: y - 1.5, lambda: y * -0.5)),
            [0, x],
        )[1],
        x,
    )
    yield case("WHILE gru", tf.keras.layers.GRU(4, return_sequences=True), noise(2, 5, 3))
    yield case("WHILE rnn", tf.keras.layers.SimpleRNN(4), noise(2, 5, 3))
    whole = [tf.lite.Optimize.DEFAULT]
    yield case("FULLY_CONNECTED dynamic", tf.keras.layers.Dense(128), noise(4, 64), optimizations=whole)
    yield case("WHILE dynamic", tf.keras.layers.LSTM(32), noise(1, 6, 48), optimizations=whole)


def changed(stored, change):
    """Return a model that `change` has changed."""
    whole = schema.ModelT.InitFromPackedBuf(stored, 0)
    change(whole)
    builder = flatbuffers.Builder(1024)
    builder.Finish(whole.Pack(builder), b"TFL3")
    return np.frombuffer(bytes(builder.Output()), np.uint8)


def special(stored):
    """Return models for tests of the reader, made of one with a loop."""

    def body(number):
        def change(whole):
            for step in whole.subgraphs[0].operators:
                if isinstance(step.builtinOptions, schema.WhileOptionsT):
                    step.builtinOptions.bodySubgraphIndex = number
            if number == 2:
                whole.subgraphs[2] = whole.subgraphs[0]

        return changed(stored, change)

    def once(is_empty):
        def change(whole):
            step, code, graph = schema.OperatorT(), schema.OperatorCodeT(), schema.SubGraphT()
            code.builtinCode, code.deprecatedBuiltinCode = schema.BuiltinOperator.CALL_ONCE, 127
            step.opcodeIndex, step.inputs, step.outputs = len(whole.operatorCodes), [], []
            step.builtinOptionsType = schema.BuiltinOptions.CallOnceOptions
            step.builtinOptions = schema.CallOnceOptionsT()
            step.builtinOptions.initSubgraphIndex = len(whole.subgraphs)
            graph.tensors, graph.inputs, graph.outputs, graph.operators = [], [], [], []
            if not is_empty:
                variable, handle = schema.OperatorCodeT(), schema.OperatorT()
                variable.builtinCode, variable.deprecatedBuiltinCode = schema.BuiltinOperator.VAR_HANDLE, 127
                handle.opcodeIndex, handle.inputs, handle.outputs = len(whole.operatorCodes) + 1, [], []
                whole.operatorCodes.append(variable)
                graph.operators = [handle]
            whole.operatorCodes.insert(step.opcodeIndex, code)
            whole.subgraphs.append(graph)
            whole.subgraphs[0].operators.insert(0, step)

        return changed(stored, change)

    return {"cycle": body(2), "missing": body(9), "main": body(0), "once": once(True), "variables": once(False)}


def main():
    tf.keras.utils.set_random_seed(0)
    cases = [*control()]
    save("converted.npz", cases)
    np.savez_compressed(Path(__file__).with_name("subgraphs.npz"), **special(cases[0]["model"]))


if __name__ == "__main__":
    main()
