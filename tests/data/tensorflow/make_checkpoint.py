"""Make checkpoint/: a small network of TensorFlow 1 as a checkpoint, and its results in output.npz.

python make_checkpoint.py (needs tensorflow-cpu; the folder here was made with 2.21)
"""

from __future__ import annotations

import os
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow.compat.v1 as tf

HERE = Path(__file__).parent / "checkpoint"


def main():
    HERE.mkdir(exist_ok=True)
    random = np.random.default_rng(0)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, (None, 6, 5, 3), name="picture")
        kernel = tf.get_variable("conv/kernel", (3, 3, 3, 4), use_resource=False)
        bias = tf.get_variable("conv/bias", (4,), use_resource=True)
        y = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, kernel, (2, 2), "SAME"), bias), name="features")
        logits = tf.matmul(tf.reshape(y, (-1, 36)), tf.get_variable("dense", (36, 2)))
        prob = tf.nn.softmax(logits, name="prob")
        for variable in tf.global_variables():
            variable.load(random.standard_normal(variable.shape).astype(np.float32), session)
        tf.train.Saver().save(session, str(HERE / "model"), write_state=False)
        given = random.standard_normal((1, 6, 5, 3)).astype(np.float32)
        np.savez_compressed(HERE / "output.npz", picture=given, prob=session.run(prob, {x: given}))


main()
