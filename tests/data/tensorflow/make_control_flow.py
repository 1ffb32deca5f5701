"""Make control_flow.npz: loops and branches as TensorFlow writes them, and its own results.

python make_control_flow.py        (needs tensorflow-cpu; the file in this folder was made with 2.19)

The cases of version 1 are frames and Switches (Enter, Merge, NextIteration, Exit, TensorArrayV3), as
tf.compat.v1 builds them. The others are functions, and "lowered" ones are these functions as frames with
TensorList operations. The file holds, by case: "NAME/graph" (a GraphDef), and for each set of inputs i
"NAME/i/INPUT" and "NAME/i/=OUTPUT".
"""

from __future__ import annotations

import os
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

v1 = tf.compat.v1
F = np.float32
FOUND: dict[str, np.ndarray] = {}


def noise(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(F)


def record(name, graph_def, inputs, outputs, sets):
    """Run a graph in TensorFlow and keep it."""
    FOUND[f"{name}/graph"] = np.frombuffer(graph_def.SerializeToString(), np.uint8)
    graph = tf.Graph()
    with graph.as_default():
        v1.import_graph_def(graph_def, name="")
    with v1.Session(graph=graph) as session:
        for i, arrays in enumerate(sets):
            feed = {f"{n}:0": a for n, a in zip(inputs, arrays)}
            results = session.run([f"{o}:0" for o in outputs], feed)
            FOUND.update({f"{name}/{i}/{n}": a for n, a in zip(inputs, arrays)})
            FOUND.update({f"{name}/{i}/={n}": a for n, a in zip(outputs, results)})


def record_frames(name, function, sets):
    names = [f"x{i}" for i in range(len(sets[0]))]
    v1.disable_control_flow_v2()
    graph = tf.Graph()
    with graph.as_default(), v1.Session(graph=graph) as session:
        v1.set_random_seed(0)
        places = [v1.placeholder(a.dtype, a.shape, n) for n, a in zip(names, sets[0])]
        ys = [tf.identity(y, f"y{i}") for i, y in enumerate(tf.nest.flatten(function(*places)))]
        session.run(v1.global_variables_initializer())
        frozen = v1.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), [y.op.name for y in ys]
        )
    record(f"{name}/frames", frozen, names, [y.op.name for y in ys], sets)
    v1.enable_control_flow_v2()


def case(name, function, *sets, frames=True):
    """Record a function in three forms. sets: tuples of inputs, all with the same shapes and dtypes."""
    if frames:
        record_frames(name, function, sets)
    names = [f"x{i}" for i in range(len(sets[0]))]
    specs = [tf.TensorSpec(a.shape, a.dtype, n) for n, a in zip(names, sets[0])]
    concrete = tf.function(function, autograph=False).get_concrete_function(*specs)
    for form, lowered in (("functions", False), ("lowered", True)):
        frozen = convert_variables_to_constants_v2(concrete, lower_control_flow=lowered)
        outputs = [o.name.partition(":")[0] for o in frozen.outputs]
        record(f"{name}/{form}", frozen.graph.as_graph_def(), names, outputs, sets)


def halving(x):
    """Halve x until its sum is at most 1: a number of steps that depends on data."""
    return tf.while_loop(lambda i, x: tf.reduce_sum(x) > 1, lambda i, x: (i + 1, x * 0.5), (tf.constant(0), x))


def lstm_cell(units, inputs, seed=0):
    w = tf.constant(noise(inputs + units, 4 * units, seed=seed) * F(0.5))
    b = tf.constant(noise(4 * units, seed=seed + 1))

    def step(x, c, h):
        i, j, f, o = tf.split(tf.matmul(tf.concat([x, h], 1), w) + b, 4, 1)
        c = c * tf.sigmoid(f + 1) + tf.sigmoid(i) * tf.tanh(j)
        return c, tf.tanh(c) * tf.sigmoid(o)

    return step


def seq_lstm(x):
    """Run an LSTM over (batch, time, features) with a loop that reads and writes lists."""
    cell, time = lstm_cell(4, 3), x.shape[1]
    inputs = tf.TensorArray(tf.float32, time).unstack(tf.transpose(x, [1, 0, 2]))
    outputs = tf.TensorArray(tf.float32, time)
    zero = tf.zeros((x.shape[0], 4))

    def body(t, c, h, outputs):
        c, h = cell(inputs.read(t), c, h)
        return t + 1, c, h, outputs.write(t, h)

    _, c, _, outputs = tf.while_loop(lambda t, *_: t < time, body, (0, zero, zero, outputs))
    return tf.transpose(outputs.stack(), [1, 0, 2]), c


def stopping(x, n):
    """Write at most n elements into a list of 8, whose other elements are zeros."""
    sums = tf.TensorArray(tf.float32, 8, element_shape=x.shape)

    def body(i, s, sums):
        s = s * 0.5 + x * tf.cast(i + 1, tf.float32)
        return i + 1, s, sums.write(i, s)

    i, s, sums = tf.while_loop(lambda i, *_: i < tf.minimum(n, 8), body, (0, tf.zeros_like(x), sums))
    return i, s, sums.stack()


def nested(x, n):
    """Run a loop in a loop, both of which end by data."""

    def body(i, x):
        _, y = tf.while_loop(lambda j, y: j < i, lambda j, y: (j + 1, y + tf.cast(j, tf.float32)), (0, x))
        return i + 1, y * 0.9

    return tf.while_loop(lambda i, x: i < n, body, (0, x))


def choice(x):
    return tf.cond(tf.reduce_max(x) > 1, lambda: tf.sqrt(tf.abs(x)) + 1, lambda: x * 2)


def constant_side(x):
    return tf.cond(tf.reduce_max(x) > 1, lambda: tf.constant([1.0, 2.0, 3.0]), lambda: x * 2)


def nested_choice(x):
    def positive():
        return tf.cond(tf.reduce_min(x) > 0, lambda: x + 10, lambda: x * 3)

    return tf.cond(tf.reduce_sum(x) > 0, positive, lambda: -x)


def two_results(x):
    a, b = tf.cond(tf.reduce_sum(x) > 0, lambda: (x + 1, x * 2), lambda: (x - 1, x / 2))
    return a, a + b


def choice_in_loop(x, n):
    def body(i, x):
        return i + 1, tf.cond(tf.reduce_sum(x) > 0, lambda: x - 1, lambda: x * -2 + tf.cast(i, tf.float32))

    return tf.while_loop(lambda i, x: i < n, body, (0, x))


def loop_in_choice(x):
    return tf.cond(tf.reduce_sum(x) > 2, lambda: halving(x)[1], lambda: x)


def main():
    three = noise(3)
    case("halving", halving, (three + 3,), (three * 0,), (three + 500,))
    case("seq_lstm", seq_lstm, (noise(2, 5, 3),), (noise(2, 5, 3, seed=1),))
    case("stopping", stopping, *((three, np.int32(n)) for n in (0, 1, 5, 100)), frames=False)
    case("nested", nested, *((three, np.int32(n)) for n in (0, 1, 4)))
    case("choice", choice, (three + 3,), (three - 3,))
    case("constant_side", constant_side, (three + 3,), (three - 3,))
    case("nested_choice", nested_choice, (abs(three) + 1,), (three + F(1),), (three - 3,))
    case("two_results", two_results, (three + 3,), (three - 3,))
    case("choice_in_loop", choice_in_loop, *((three + F(k), np.int32(n)) for n in (0, 1, 6) for k in (-2, 2)))
    case("loop_in_choice", loop_in_choice, (three + 9,), (three - 3,))
    np.savez_compressed(Path(__file__).parent / "control_flow.npz", **FOUND)


main()
