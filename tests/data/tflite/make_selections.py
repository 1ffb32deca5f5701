"""Make selections.npz: models of operators that select or repeat, and what they compute.

    python make_selections.py    (needs ai-edge-litert and flatbuffers)

The file has the form of operators.npz.
"""

from __future__ import annotations

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from make_operators import I32, F, c, model, noise, run, save

TANH, RELU = 4, 1


def case(name, inputs, options, dtypes=(F,), shapes=None, version=1, states=(), change=None):
    """Return a case. states: the numbers of the constants that are variables, which are zero at first."""

    def more(whole, graph, step):
        for tensor in graph.tensors:
            if tensor.name in [f"const{i}" for i in states]:
                tensor.isVariable, tensor.buffer = True, 0
        if change is not None:
            change(whole, graph, step)

    kind = name.split()[0]
    given = {f"in{i}": x for i, x in enumerate(inputs) if isinstance(x, (np.ndarray, np.generic))}
    shapes = shapes or [(1,)] * len(dtypes)
    for _ in range(2):  # the second file states the shapes
        stored = model(kind, inputs, options, list(zip(shapes, dtypes)), version, more)
        outputs = run(stored, given)
        shapes = [outputs[f"out{i}"].shape for i in range(len(dtypes))]
    return {"name": name, "model": stored, "inputs": given, "outputs": outputs}


def zeros(*shape):
    return c(np.zeros(shape, F))


def lstm_weights(seed, size=4, values=3, *, gate=True, peep=False, projected=0):
    """Return the inputs 1 to 17 of an LSTM."""

    def some(number, *shape):
        return c(noise(*shape, seed=100 * seed + number))

    parts = [some(i, size, values) for i in range(4)] + [some(i, size, projected or size) for i in range(4, 8)]
    parts += [some(i, size) for i in range(8, 11)] if peep else [None] * 3
    parts += [some(i, size) for i in range(11, 15)]
    parts += [some(15, projected, size), some(16, projected)] if projected else [None] * 2
    if not gate:
        for i in (0, 4, 8, 11):
            parts[i] = None
    return parts


def sparse(x, order, formats, blocks=(), sizes=()):
    """Return the sparse parameters and the values of a constant. order: the axes, then blocks, of each level.
    formats: 1 for a sparse level. blocks, sizes: the axes that have blocks, and the size of these.
    """
    rank, size_of = x.ndim, dict(zip(blocks, sizes))
    split = []  # the shape with an axis for the blocks of each axis
    for axis, size in enumerate(x.shape):
        split += [size // size_of[axis], size_of[axis]] if axis in size_of else [size]
    first = [axis + sum(b < axis for b in blocks) for axis in range(rank)]
    inner = [first[b] + 1 for b in blocks]
    tree = x.reshape(split).transpose([(first + inner)[i] for i in order])
    parameters = schema.SparsityParametersT()
    parameters.traversalOrder, parameters.blockMap, parameters.dimMetadata = list(order), list(blocks) or None, []
    entries = [tree]
    for i, (format, size) in enumerate(zip(formats, tree.shape)):
        level = schema.DimensionMetadataT()
        level.format, level.denseSize = format, 0 if format else size
        if format:
            kept = [[j for j in range(size) if np.any(entry[j])] for entry in entries]
            table = (schema.Uint8VectorT, schema.Uint16VectorT, schema.Int32VectorT)[i % 3]
            dtype = (np.uint8, np.uint16, np.int32)[i % 3]
            level.arraySegmentsType = level.arrayIndicesType = 3 - i % 3
            level.arraySegments, level.arrayIndices = table(), table()
            level.arraySegments.values = np.cumsum([0, *map(len, kept)]).astype(dtype)
            level.arrayIndices.values = np.array([j for js in kept for j in js], dtype)
            entries = [entry[j] for entry, js in zip(entries, kept) for j in js]
        else:
            entries = [entry[j] for entry in entries for j in range(size)]
        parameters.dimMetadata.append(level)
    return parameters, np.array(entries, x.dtype)


def sparse_cases():
    x = noise(8, 12) * (noise(8, 12, seed=1) > 0.8)
    one = noise(8, 1, 1, 32) * (noise(8, 1, 1, 32, seed=1) > 0.5)
    for title, dense, how in (
        ("rows", x, ((0, 1), (0, 1))),
        ("columns", x, ((1, 0), (0, 1))),
        ("both", x, ((0, 1), (1, 1))),
        ("blocks", x, ((0, 1, 2), (0, 1, 0), (1,), (4,))),
        ("two blocks", x, ((0, 1, 3, 2), (0, 1, 0, 0), (0, 1), (2, 4))),
        ("filter", one, ((0, 1, 2, 3), (0, 0, 0, 1))),
    ):
        parameters, values = sparse(dense, *how)

        def change(whole, graph, step, parameters=parameters, values=values):
            graph.tensors[0].sparsity = parameters
            whole.buffers[1].data = np.frombuffer(values.tobytes(), np.uint8)

        stored = model("DENSIFY", [c(dense)], ("DensifyOptions", {}), [(dense.shape, F)], 1, change)
        (result,) = run(stored, {}).values()  # the interpreter gives the tensor another name
        np.testing.assert_array_equal(result, dense)
        yield {"name": f"DENSIFY {title}", "model": stored, "inputs": {}, "outputs": {"out0": result}}


def recurrent():
    x = noise(2, 5, 3)
    for title, weights, how in (
        ("plain", {}, {}),
        ("coupled", {"gate": False}, {}),
        ("peepholes", {"peep": True}, {}),
        ("coupled peepholes", {"gate": False, "peep": True}, {}),
        ("clip", {}, {"cellClip": 0.4}),
        ("large clip", {}, {"cellClip": 10.0}),
        ("projection", {"projected": 2, "peep": True}, {"projClip": 0.3, "cellClip": 0.5}),
        ("time", {}, {"timeMajor": True}),
        ("relu", {}, {"fusedActivationFunction": RELU}),
    ):
        batch = 5 if how.get("timeMajor") else 2
        inputs = [x, *lstm_weights(1, **weights), zeros(batch, weights.get("projected", 4)), zeros(batch, 4)]
        how = {"fusedActivationFunction": TANH, "cellClip": 0.0, "projClip": 0.0, **how}
        yield case(f"UNIDIRECTIONAL_SEQUENCE_LSTM {title}", inputs + [None] * 4,
            ("UnidirectionalSequenceLSTMOptions", how), states=(18, 19))  # fmt: skip
    for gate in (True, False):
        norms = [c(noise(4, seed=i)) if gate or i else None for i in range(4)]
        inputs = [x, *lstm_weights(1, gate=gate, peep=True), zeros(2, 4), zeros(2, 4), *norms]
        yield case(f"UNIDIRECTIONAL_SEQUENCE_LSTM layer norm {gate}", inputs,
            ("UnidirectionalSequenceLSTMOptions", {"fusedActivationFunction": TANH}), states=(18, 19))  # fmt: skip
    for merge, time in ((True, True), (False, False)):
        batch = 5 if time else 2
        inputs = [x, *lstm_weights(1), *lstm_weights(2), *[zeros(batch, 4)] * 4, *[None] * 9]
        how = {"fusedActivationFunction": TANH, "mergeOutputs": merge, "timeMajor": time}
        yield case(f"BIDIRECTIONAL_SEQUENCE_LSTM {merge}", inputs, ("BidirectionalSequenceLSTMOptions", how),
            (F,) if merge else (F, F), states=(35, 36, 37, 38))  # fmt: skip
    parts = [(c(noise(4, 3, seed=i)), c(noise(4, 4, seed=i + 1)), c(noise(4, seed=i + 2))) for i in (1, 5)]
    for time, activation in ((False, TANH), (True, RELU)):
        batch = 5 if time else 2
        how = {"timeMajor": time, "fusedActivationFunction": activation}
        yield case(f"UNIDIRECTIONAL_SEQUENCE_RNN {time}", [x, *parts[0], zeros(batch, 4)],
            ("SequenceRNNOptions", how), states=(4,))  # fmt: skip
        how["mergeOutputs"] = time
        inputs = [x, *parts[0], zeros(batch, 4), *parts[1], zeros(batch, 4), *[None] * 3]
        yield case(f"BIDIRECTIONAL_SEQUENCE_RNN {time}", inputs, ("BidirectionalSequenceRNNOptions", how),
            (F,) if time else (F, F), states=(4, 8))  # fmt: skip


def selections():
    x = noise(4, 5)
    places = np.array([[0, 2], [3, 1], [0, 2]], I32)
    yield case("SCATTER_ND", [places, noise(3), c([4, 5], I32)], ("ScatterNdOptions", {}), shapes=[(4, 5)])
    yield case(
        "SCATTER_ND rows", [places[:, :1], noise(3, 5), c([4, 5], I32)], ("ScatterNdOptions", {}), shapes=[(4, 5)]
    )
    for title, where, values in (
        ("two", places[:2], noise(2)),
        ("one value", places[:2], np.array(2.5, F)),
        ("line", places[:2, 0], noise(2)),
    ):  # fmt: skip
        shape = [4, 5] if where.ndim == 2 else [4]
        yield case(f"SPARSE_TO_DENSE {title}", [where, c(shape, I32), values, c(-1.0, F)],
            ("SparseToDenseOptions", {}), shapes=[tuple(shape)])  # fmt: skip
    for title, start in (("inside", [1, 2]), ("beyond", [3, 9]), ("before", [-2, 1])):
        yield case(f"DYNAMIC_UPDATE_SLICE {title}", [x, noise(2, 3, seed=1), np.array(start, I32)],
            ("DynamicUpdateSliceOptions", {}))  # fmt: skip
    yield case(
        "DYNAMIC_UPDATE_SLICE constant",
        [x, noise(2, 3, seed=1), c([1, 1], I32)],
        ("DynamicUpdateSliceOptions", {}),
    )
    yield case("EMBEDDING_LOOKUP", [np.array([2, 0, 2], I32), c(x)], None)
    ids = np.array([2, 0, 2, 1], I32)
    for kind, table in (("SUM", "Sum"), ("PROD", "Prod"), ("MAX", "Max"), ("MIN", "Min")):
        yield case(f"UNSORTED_SEGMENT_{kind}", [x, ids, c(4, I32)], (f"UnsortedSegment{table}Options", {}),
            shapes=[(4, 5)])  # fmt: skip
    yield case("SEGMENT_SUM", [x, c([0, 0, 1, 2], I32)], ("SegmentSumOptions", {}), shapes=[(3, 5)])
    yield case("MATRIX_DIAG", [x], ("MatrixDiagOptions", {}))
    for title, matrix in (("wide", noise(2, 3, 4)), ("square", noise(2, 3, 3)), ("high", noise(2, 4, 3))):
        yield case(f"MATRIX_SET_DIAG {title}", [matrix, noise(2, 3, seed=1)], ("MatrixSetDiagOptions", {}))
    corners = np.sort(noise(12, 2, 2), axis=1).reshape(12, 4)
    scores = np.random.default_rng(3).random(12).astype(F)
    for title, limit, iou, least in (("few", 4, 0.5, 0.1), ("all", 20, 0.3, 0.0), ("none", 5, 0.5, 2.0)):
        inputs = [corners, scores, c(limit, I32), c(iou, F), c(least, F)]
        yield case(f"NON_MAX_SUPPRESSION_V4 {title}", inputs, ("NonMaxSuppressionV4Options", {}), (I32, I32))
        yield case(f"NON_MAX_SUPPRESSION_V5 {title}", [*inputs, c(0.0, F)], ("NonMaxSuppressionV5Options", {}),
            (I32, F, I32))  # fmt: skip
    yield case("ATAN2", [x, noise(4, 5, seed=1)], ("ATan2Options", {}))
    steps = ("BucketizeOptions", {"boundaries": [0.0, 0.5, 2.0]})
    yield case("BUCKETIZE", [np.array([-3, 0, 0.5, 1, 7], F)], steps, (I32,))
    whole = np.array([5, -7, 12, 3], I32)
    yield case("BITWISE_XOR", [whole, np.array([3, 6, -1, 3], I32)], ("BitwiseXorOptions", {}), (I32,))
    yield case("RIGHT_SHIFT", [whole, np.array([1, 2, 3, 0], I32)], ("RightShiftOptions", {}), (I32,))
    yield case("BROADCAST_ARGS", [c([2, 1, 3], I32), c([4, 1], I32)], None, (I32,))
    volume = noise(1, 4, 5, 6, 2)
    for title, how in (
        ("valid", {"padding": 1, "strideD": 1, "strideH": 1, "strideW": 1}),
        ("same", {"padding": 0, "strideD": 2, "strideH": 2, "strideW": 2, "fusedActivationFunction": RELU}),
    ):
        yield case(f"CONV_3D {title}", [volume, c(noise(2, 3, 3, 2, 3)), c(noise(3, seed=1))],
            ("Conv3DOptions", how))  # fmt: skip
    how = {"padding": 0, "strideD": 2, "strideH": 2, "strideW": 2}
    inputs = [c([1, 8, 10, 12, 3], I32), c(noise(2, 3, 3, 3, 2)), volume, c(noise(3, seed=1))]
    yield case("CONV_3D_TRANSPOSE", inputs, ("Conv3DOptions", how), shapes=[(1, 8, 10, 12, 3)])


if __name__ == "__main__":
    save("selections.npz", [*recurrent(), *selections(), *sparse_cases()])
