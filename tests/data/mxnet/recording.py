"""Record what MXNet computes: networks of one operator or of several, with their inputs and outputs.

It needs Python 3.8 with mxnet 1.9.1 and numpy 1.23. make_operators.py and the other scripts of this folder use it.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import mxnet as mx
import numpy as np

F = np.float32
CASES = []


def noise(*shape, seed=0, scale=1.0):
    return (np.random.RandomState(seed).standard_normal(shape) * scale).astype(F)


class Weights:
    """An input whose values are in the .params file."""

    def __init__(self, array):
        self.array = np.asarray(array)


W = Weights


def params_of(arrays):
    """Return the bytes of a .params file."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "file.params")
        mx.nd.save(path, {name: mx.nd.array(a, dtype=a.dtype) for name, a in arrays.items()})
        return Path(path).read_bytes()


def network(name, symbol, inputs, weights=None, auxiliary=None, text=None):
    """Add a case: a symbol with arrays by name. Labels, for which no array is given, are zeros.

    text: the JSON to store in place of the symbol's, which MXNet must load to the same symbol.
    """
    weights, auxiliary = weights or {}, auxiliary or {}
    if text is not None:
        symbol = mx.sym.load_json(text)
    arrays = {**inputs, **weights}
    known = {}
    if not {*symbol.list_arguments()} <= {*arrays}:
        shapes, _, _ = symbol.infer_shape(**{n: a.shape for n, a in inputs.items()})
        known = dict(zip(symbol.list_arguments(), shapes))
    args = {
        n: mx.nd.array(arrays[n], dtype=arrays[n].dtype) if n in arrays else mx.nd.zeros(known[n])
        for n in symbol.list_arguments()
    }
    states = {n: mx.nd.array(auxiliary[n]) for n in symbol.list_auxiliary_states()}
    run = symbol.bind(mx.cpu(), args=args, aux_states=states, grad_req="null")
    outputs = [y.asnumpy() for y in run.forward(is_train=False)]
    stored = {f"arg:{n}": a for n, a in weights.items()}
    stored.update({f"aux:{n}": a for n, a in auxiliary.items()})
    params = params_of(stored) if stored else b""
    symbol_text = symbol.tojson() if text is None else text
    CASES.append(
        {
            "name": name, "symbol": symbol_text.encode(), "params": params, "inputs": inputs,
            "outputs": {str(i): y for i, y in enumerate(outputs)},
        }
    )  # fmt: skip
    return outputs


def case(name, inputs, auxiliary=(), **attributes):
    """Add a case of one operator. The first word of its name is the operator; further words tell cases apart."""
    kind = name.split()[-1] if name.startswith("float64") else name.split()[0]
    variables, given, weights = [], {}, {}
    for i, x in enumerate(inputs):
        (weights if isinstance(x, Weights) else given)[f"in{i}"] = (
            x.array if isinstance(x, Weights) else np.asarray(x)
        )
        dtype = {} if isinstance(x, Weights) or np.asarray(x).dtype == F else {"dtype": np.asarray(x).dtype}
        variables.append(mx.sym.Variable(f"in{i}", **dtype))
    homes = {
        "_contrib_": mx.sym.contrib,
        "_linalg_": mx.sym.linalg,
        "_image_": mx.sym.image,
        "_": mx.sym._internal,
        "": mx.sym,
    }
    prefix = next(
        p for p in homes if kind.startswith(p) and hasattr(homes[p], kind[len(p) :] if len(p) > 1 else kind)
    )
    symbol = getattr(homes[prefix], kind[len(prefix) :] if len(prefix) > 1 else kind)(
        *variables, name="op", **attributes
    )
    return network(name, symbol, given, weights, dict(zip(symbol.list_auxiliary_states(), auxiliary)))


def save(path):
    """Write all cases to a file: `index` (JSON) and `data`, with each array or text once."""
    index, parts, places, at = [], [], {}, 0

    def add(content):
        nonlocal at
        if content not in places:
            parts.append(content)
            places[content] = [at, at + len(content)]
            at += len(content)
        return places[content]

    for one in CASES:
        entry = {"name": one["name"], "symbol": add(one["symbol"]), "params": add(one["params"])}
        for group in ("inputs", "outputs"):
            entry[group] = {n: [list(v.shape), v.dtype.str, *add(v.tobytes())] for n, v in one[group].items()}
        index.append(entry)
    names = [one["name"] for one in CASES]
    assert len({*names}) == len(names), sorted(n for n in names if names.count(n) > 1)
    np.savez_compressed(
        path,
        index=np.frombuffer(json.dumps(index).encode(), np.uint8),
        data=np.frombuffer(b"".join(parts), np.uint8),
    )
    print(f"{path}: {len(CASES)} cases of {len({n.split()[0] for n in names})} operators")
