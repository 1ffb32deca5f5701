"""Make fork.npz: what the recurrent sections of AlexeyAB's fork compute, sample after sample.

    python make_fork.py

No package brings this fork. The results are those of loops over single elements, written from the formulas in its
src/*_layer.c and from the order in which src/parser.c loads weights. The file has the form of sections.npz.
"""

from __future__ import annotations

import math

import numpy as np
from recording import HEADER, F, noise, save, sigmoid

CASES: list[dict] = []


def case(name, section, weights, x, compute):
    """Add a case: a section, and the function that computes its outputs."""
    cfg = f"[net]\nwidth=5\nheight=3\nchannels=4\n{section}"
    stored = HEADER + b"".join(np.asarray(w, "<f4").tobytes() for w in weights)
    y = np.asarray(compute(x), F)
    CASES.append(
        {
            "name": name,
            "cfg": cfg,
            "weights": stored,
            "x": x,
            "outputs": {"": y},
            "opencv": False,
            "dialect": "alexeyab",
        }
    )


def convolve(x, biases, kernel):
    """Convolve one map (C, H, W), which keeps its size, with groups of channels."""
    filters, channels, size, _ = kernel.shape
    y = np.zeros((filters, *x.shape[1:]))
    for f, i, j in np.ndindex(*y.shape):
        total, start = float(biases[f]), f // (filters * channels // x.shape[0]) * channels
        for c, a, e in np.ndindex(channels, size, size):
            r, s = i - size // 2 + a, j - size // 2 + e
            if 0 <= r < x.shape[1] and 0 <= s < x.shape[2]:
                total += float(kernel[f, c, a, e]) * float(x[start + c, r, s])
        y[f, i, j] = total
    return y


def multiply(x, biases, matrix):
    return [float(b) + sum(float(m) * float(v) for m, v in zip(row, x)) for b, row in zip(biases, matrix)]


def leak(values):
    return np.where(values > 0, values, 0.1 * values)


def kernels(count, filters, channels, size=3, seed=101):
    return [
        [noise(filters, seed=seed + i), noise(filters, channels, size, size, seed=seed + 20 + i, scale=0.3)]
        for i in range(count)
    ]


def matrices(count, rows, columns, seed=131):
    return [
        [noise(rows, seed=seed + i), noise(rows, columns, seed=seed + 20 + i, scale=0.5)] for i in range(count)
    ]


def crnn(parts, shortcut):
    def compute(x):
        state, results = np.zeros((4, *x.shape[2:])), []
        for sample in x:
            fresh = leak(convolve(sample, *parts[0])) + leak(convolve(state, *parts[1]))
            state = state + fresh if shortcut else fresh
            results.append(leak(convolve(state, *parts[2])))
        return np.stack(results)

    return compute


steps = noise(3, 4, 3, 5, seed=150)
for shortcut in (0, 1):
    parts = [*kernels(2, 4, 4), *kernels(1, 2, 4, seed=110)]
    more = f"hidden=4\noutput=2\npad=1\nactivation=leaky\nshortcut={shortcut}\n"
    case(
        f"crnn of the fork {shortcut}",
        f"[crnn]\n{more}",
        [a for p in parts for a in p],
        steps,
        crnn(parts, shortcut),
    )


def conv_lstm(v, w, u, bottleneck=False, shortcut=False, limit=32.0):
    """Return what a convolutional LSTM computes. v, w, u: by gate, biases and kernels, as the file has them."""
    logistic = np.vectorize(sigmoid)

    def compute(x):
        h = c = np.zeros((4, *x.shape[2:]))
        results = []
        for sample in x:
            m = np.tanh(leak(convolve(np.concatenate([h, sample]), *w["f"]))) if bottleneck else sample
            gates = {g: leak(convolve(m, *u[g])) for g in "figo"}
            for g in "figo":
                gates[g] = gates[g] if bottleneck else gates[g] + leak(convolve(h, *w[g]))
            for g in "fi" if v else "":
                gates[g] = gates[g] + leak(convolve(c, *v[g]))
            c = logistic(gates["f"]) * c + logistic(gates["i"]) * np.tanh(gates["g"])
            o = gates["o"] + leak(convolve(c, *v["o"])) if v else gates["o"]
            h = logistic(o) * np.tanh(c)
            c = np.clip(c, -limit, limit)
            y = h.copy()
            if shortcut:
                y[:2] += m[:2]
            results.append(y)
        return np.stack(results)

    return compute


for more, settings in (
    ("", {}),
    ("groups=2\n", {}),
    ("peephole=1\nstate_constrain=1\n", {"limit": 1.0}),
    ("bottleneck=1\nshortcut=1\n", {"bottleneck": True, "shortcut": True}),
):
    channels = 2 if "groups" in more else 4
    v = dict(zip("fio", kernels(3, 4, 4, seed=160))) if "peephole" in more else {}
    narrow = "bottleneck" in more
    w = {"f": kernels(1, 4, 8, seed=170)[0]} if narrow else dict(zip("figo", kernels(4, 4, channels, seed=170)))
    u = dict(zip("figo", kernels(4, 4, channels, seed=180)))
    case(
        f"conv_lstm {' '.join(more.split())}",
        f"[conv_lstm]\noutput=4\npad=1\nactivation=leaky\n{more}",
        [a for part in (v, w, u) for pair in part.values() for a in pair],
        5 * steps,
        conv_lstm(v, w, u, **settings),
    )


def rnn(parts, of_state):
    def compute(x):
        state, results = np.zeros(6), []
        for sample in x.reshape(3, -1):
            state = leak(np.array(multiply(sample, *parts[0]))) + of_state(np.array(multiply(state, *parts[1])))
            results.append(leak(np.array(multiply(state, *parts[2]))))
        return np.stack(results)

    return compute


parts = [*matrices(1, 6, 60), *matrices(1, 6, 6, 140), *matrices(1, 3, 6, 141)]
for logistic, of_state in ((0, leak), (1, np.vectorize(sigmoid)), (2, lambda v: 2 * np.vectorize(sigmoid)(v) - 1)):
    case(
        f"rnn of the fork {logistic}",
        f"[rnn]\noutput=3\nhidden=6\nactivation=leaky\nlogistic={logistic}\n",
        [a for p in parts for a in p],
        steps,
        rnn(parts, of_state),
    )


def lstm_of_fork(parts):
    def compute(x):
        h = c = np.zeros(3)
        results = []
        for sample in x.reshape(3, -1):
            f, i, g, o = (np.array(multiply(h, *parts[k])) + multiply(sample, *parts[4 + k]) for k in range(4))
            c = np.array([sigmoid(a) * b + sigmoid(d) * math.tanh(e) for a, b, d, e in zip(f, c, i, g)])
            h = np.array([sigmoid(a) * math.tanh(b) for a, b in zip(o, c)])
            results.append(h)
        return np.stack(results)

    return compute


def gru_of_fork(parts):
    def compute(x):
        h, results = np.zeros(3), []
        for sample in x.reshape(3, -1):
            z, r = (
                [sigmoid(a + b) for a, b in zip(multiply(sample, *parts[k]), multiply(h, *parts[3 + k]))]
                for k in range(2)
            )
            n = np.array(multiply(sample, *parts[2])) + multiply(np.array(r) * h, *parts[5])
            h = np.array([a * b + (1 - a) * sigmoid(d) for a, b, d in zip(z, h, n)])
            results.append(h)
        return np.stack(results)

    return compute


for kind, parts, compute in (
    ("lstm", [*matrices(4, 3, 3, 200), *matrices(4, 3, 60, 210)], lstm_of_fork),
    ("gru", [*matrices(3, 3, 60, 220), *matrices(3, 3, 3, 230)], gru_of_fork),
):
    weights = [a for p in parts for a in p]
    case(f"{kind} of the fork", f"[{kind}]\noutput=3\n", weights, steps, compute(parts))

save(CASES, "fork.npz")
print(len(CASES), "cases")
