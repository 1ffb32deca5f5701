"""Make states.npz: models of operators with a state or with complex numbers, and what they compute.

quantized_states.npz has quantized ones, and refused.npz models for tests of the reader.

    python make_states.py    (needs what make_operators.py needs)

The file has the form of operators.npz. A case with a state has the first run, whose state the file gives, or a
later one, whose state is among the inputs; the state after it is among the outputs.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from flatbuffers import flexbuffers
from make_operators import I32, RELU, F, c, model, noise, save
from make_quantized import I8, I16, Q, values, weights
from make_selections import lstm_weights

TANH = 4


def state(*shape, q=None):
    """Return a variable, which is zero at first. q: its dtype, scale and zero point, if it is quantized."""
    return ("state", np.zeros(shape, q.dtype if q else F), q)


def array(given):
    q = given[1] if isinstance(given, tuple) else given
    return q.integers if isinstance(q, Q) else q


def case(name, inputs, options, outputs, version=1, runs=1, later=None):
    """Return a case of an operator: the last of several runs. outputs: shapes, some with the Q of the steps."""
    names = [f"const{i}" for i, x in enumerate(inputs) if isinstance(x, tuple) and x[0] == "state"]
    names = names if name.split()[0] in ("SVDF", "RNN", "LSTM") else ()  # others begin each run with zeros
    steps = [(o[1] if isinstance(o, tuple) and isinstance(o[1], Q) else None) for o in outputs]
    shapes = [(o[0], q.dtype) if q else (o, F) for o, q in zip(outputs, steps)]

    def change(whole, graph, step):
        indices = [i for i in step.inputs if i >= 0]
        for index, x in zip(indices + list(step.outputs), [x for x in inputs if x is not None] + steps):
            tensor, q = graph.tensors[index], x[1] if isinstance(x, tuple) else x
            if isinstance(x, tuple) and x[0] == "state":
                tensor.isVariable, tensor.buffer = True, 0
                q = x[2]
            if isinstance(q, Q):
                tensor.quantization = schema.QuantizationParametersT()
                tensor.quantization.scale = np.atleast_1d(q.scale).astype(F)
                tensor.quantization.zeroPoint = np.atleast_1d(q.zero).astype(np.int64)
        if later is not None:
            later(whole, graph, step)

    arrays = [x if x is None else array(x) if isinstance(x, (np.ndarray, Q)) else c(array(x)) for x in inputs]
    stored = model(name.split()[0], arrays, options, shapes, version, change)
    return recorded(
        name, stored, {f"in{i}": x for i, x in enumerate(arrays) if isinstance(x, np.ndarray)}, runs, names
    )


def recorded(name, stored, given, runs=1, states=()):
    """Return what the last of several runs computes, each on the inputs in another order."""
    runner = Interpreter(
        model_content=stored, experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    )
    runner.allocate_tensors()
    of_states = {d["name"]: d["index"] for d in runner.get_tensor_details() if d["name"] in states}
    for run in range(runs):
        before = {name: runner.get_tensor(i).copy() for name, i in of_states.items()} if run else {}
        last = {n: np.roll(x, run) for n, x in given.items()}
        for detail in runner.get_input_details():
            runner.set_tensor(detail["index"], last[detail["name"]])
        runner.invoke()
    after = {f"{name}/next": runner.get_tensor(i).copy() for name, i in of_states.items()}
    outputs = {d["name"]: runner.get_tensor(d["index"]).copy() for d in runner.get_output_details()}
    return {"name": name, "model": stored, "inputs": {**last, **before}, "outputs": {**outputs, **after}}


def int8(parts):
    """Return weights in int8, one scale each, except for vectors (biases)."""
    return [p if p is None or p[1].ndim == 1 else weights(p[1], per_channel=False) for p in parts]


def steps():
    x = noise(2, 3)
    for title, how, runs in (("first", {}, 1), ("later", {}, 6), ("relu", {"fusedActivationFunction": RELU}, 2)):
        parts = [x, c(noise(8, 3)), c(noise(8, 5, seed=1)), c(noise(4, seed=2)), state(2, 40)]
        yield case(f"SVDF {title}", parts, ("SVDFOptions", {"rank": 2, **how}), [(2, 4)], runs=runs)
    for asymmetric in (False, True):
        parts = [x, weights(noise(8, 3), per_channel=False), weights(noise(8, 5, seed=1), per_channel=False), None,
            state(2, 40)]  # fmt: skip
        how = {"rank": 2, "asymmetricQuantizeInputs": asymmetric}
        yield case(f"SVDF hybrid {asymmetric}", parts, ("SVDFOptions", how), [(2, 4)], version=3, runs=4)
    parts = [c(noise(4, 3)), c(noise(4, 4, seed=1)), c(noise(4, seed=2)), state(2, 4)]
    for title, activation, weight, runs in (
        ("first", TANH, parts, 1), ("later", RELU, parts, 3),
        ("hybrid", TANH, int8(parts[:3]) + parts[3:], 3)):  # fmt: skip
        yield case(f"RNN {title}", [x, *weight], ("RNNOptions", {"fusedActivationFunction": activation}), [(2, 4)],
            version=3, runs=runs)  # fmt: skip
    for title, more, how, runs in (
        ("first", {}, {}, 1), ("later", {}, {}, 3), ("coupled", {"gate": False, "peep": True}, {}, 2),
        ("projection", {"projected": 2}, {"projClip": 0.3, "cellClip": 0.5}, 2)):  # fmt: skip
        parts = [x, *lstm_weights(1, **more), state(2, more.get("projected", 4)), state(2, 4)]
        how = {"fusedActivationFunction": TANH, **how}
        yield case(f"LSTM {title}", parts, ("LSTMOptions", how), [(2, more.get("projected", 4))], runs=runs)
    parts = [x, noise(2, 4, seed=1), c(noise(16, 7, seed=2)), c(noise(16, seed=3)), noise(2, 4, seed=4)]
    how = {"fusedActivationFunction": TANH, "kernelType": 1}
    yield case("LSTM basic", parts, ("LSTMOptions", how), [(2, 4), (2, 4), (2, 7), (2, 16)], version=2)


def hybrids():
    x = noise(2, 5, 3)
    for title, more, how in (
        ("plain", {}, {}), ("asymmetric", {}, {"asymmetricQuantizeInputs": True}),
        ("coupled projection", {"gate": False, "projected": 2}, {})):  # fmt: skip
        parts = [x, *int8(lstm_weights(1, **more)), state(2, more.get("projected", 4)), state(2, 4), *[None] * 4]
        how = {"fusedActivationFunction": TANH, **how}
        yield case(f"UNIDIRECTIONAL_SEQUENCE_LSTM hybrid {title}", parts,
            ("UnidirectionalSequenceLSTMOptions", how), [(2, 5, more.get("projected", 4))], version=3)  # fmt: skip
    parts = [c(noise(4, 3)), c(noise(4, 4, seed=1)), c(noise(4, seed=2))]
    how = {"fusedActivationFunction": TANH}
    yield case("UNIDIRECTIONAL_SEQUENCE_RNN hybrid", [x, *int8(parts), state(2, 4)], ("SequenceRNNOptions", how),
        [(2, 5, 4)], version=3)  # fmt: skip


def then(*kinds):
    """Return a change that adds operators with one input, and a constant where one stands beside them."""

    def change(whole, graph, step):
        graph.tensors[step.outputs[0]].type = schema.TensorType.COMPLEX64
        for i, (kind, constant, shape, table) in enumerate(kinds):
            code, one = schema.OperatorCodeT(), schema.OperatorT()
            code.builtinCode = getattr(schema.BuiltinOperator, kind)
            code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), 1
            one.opcodeIndex, one.inputs, one.outputs = i + 1, [graph.outputs[0]], [len(graph.tensors)]
            whole.operatorCodes.append(code)
            if table:
                one.builtinOptionsType = getattr(schema.BuiltinOptions, table)
                one.builtinOptions = getattr(schema, f"{table}T")()
            tensor = schema.TensorT()
            tensor.name, tensor.shape, tensor.buffer = f"next{i}", shape, 0
            tensor.type = schema.TensorType.FLOAT32 if i + 1 == len(kinds) else schema.TensorType.COMPLEX64
            graph.tensors.append(tensor)
            if constant is not None:
                whole.buffers.append(schema.BufferT())
                whole.buffers[-1].data = np.frombuffer(np.array(constant, I32).tobytes(), np.uint8)
                other = schema.TensorT()
                other.name, other.shape, other.buffer = f"size{i}", np.shape(constant), len(whole.buffers) - 1
                other.type = schema.TensorType.INT32
                one.inputs.append(len(graph.tensors))
                graph.tensors.append(other)
            graph.operators.append(one)
            graph.outputs = list(one.outputs)

    return change


def complex_numbers():
    for title, size, kinds in (
        ("abs", (4, 8), (("COMPLEX_ABS", None, [2, 4, 5], None),)),
        ("real", (8, 4), (("REAL", None, [2, 8, 3], None),)),
        ("imag", (1, 8), (("IMAG", None, [2, 1, 5], None),)),
        ("cast", (2, 4), (("EXPAND_DIMS", 1, [2, 1, 2, 3], "ExpandDimsOptions"),
            ("SQUEEZE", None, [2, 2, 3], "SqueezeOptions"), ("CAST", None, [2, 2, 3], "CastOptions"))),
        ("reshape", (4, 8), (("RESHAPE", [8, 5], [8, 5], "ReshapeOptions"), ("IMAG", None, [8, 5], None))),
    ):  # fmt: skip
        shape = (2, size[0], size[1] // 2 + 1)
        options = ("Rfft2dOptions", {})
        yield case(f"RFFT2D {title}", [noise(2, 5, 7), c(size, I32)], options, [shape], later=then(*kinds))


def with_variable(first_value=True, subgraph=True):
    """Return a change that adds a variable, which is read before the operator and set to its result. first_value:
    whether its first value is a constant. subgraph: whether a subgraph sets it.
    """

    def change(whole, graph, step):
        kinds = ("CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE")
        for kind in kinds:
            code = schema.OperatorCodeT()
            code.builtinCode = getattr(schema.BuiltinOperator, kind)
            code.deprecatedBuiltinCode, code.version = 127, 1
            whole.operatorCodes.append(code)

        def operator(kind, inputs, outputs, table=None, **fields):
            one = schema.OperatorT()
            one.opcodeIndex, one.inputs, one.outputs = 1 + kinds.index(kind), inputs, outputs
            if table:
                one.builtinOptionsType = getattr(schema.BuiltinOptions, table)
                one.builtinOptions = getattr(schema, f"{table}T")()
                for field, value in fields.items():
                    setattr(one.builtinOptions, field, value)
            return one

        def tensor(graph, name, shape, kind, buffer=0):
            one = schema.TensorT()
            one.name, one.shape, one.type, one.buffer = name, shape, kind, buffer
            graph.tensors.append(one)
            return len(graph.tensors) - 1

        first = schema.SubGraphT()
        first.tensors, first.inputs, first.outputs, first.name = [], [], [], "first"
        whole.buffers.append(schema.BufferT())
        whole.buffers[-1].data = np.frombuffer(noise(2, 3, seed=5).tobytes(), np.uint8)
        handle = tensor(first, "state", [], schema.TensorType.RESOURCE)
        value = tensor(first, "value", [2, 3], schema.TensorType.FLOAT32, len(whole.buffers) - 1)
        name = ("VarHandleOptions",)
        first.operators = [operator("VAR_HANDLE", [], [handle], *name, sharedName="v"),
            operator("ASSIGN_VARIABLE", [handle, value], [])]  # fmt: skip
        whole.subgraphs.append(first)
        read = step.inputs[1]
        graph.inputs.remove(read)
        handle = tensor(graph, "state", [], schema.TensorType.RESOURCE)
        graph.operators = [operator("CALL_ONCE", [], [], "CallOnceOptions", initSubgraphIndex=1),
            operator("VAR_HANDLE", [], [handle], *name, sharedName="v"),
            operator("READ_VARIABLE", [handle], [read]), step,
            operator("ASSIGN_VARIABLE", [handle, step.outputs[0]], [])]  # fmt: skip

        if not first_value:
            first.tensors[value].buffer = 0
        if not subgraph:
            del graph.operators[0]

    return change


def with_operator(*args, **kwargs):
    x = noise(2, 3)
    return model("ADD", [x, x], ("AddOptions", {}), [((2, 3), F)], 1, with_variable(*args, **kwargs))


def variables():
    x, stored = noise(2, 3), with_operator()
    for title, runs in (("first", 1), ("later", 3)):
        one = recorded(f"READ_VARIABLE {title}", stored, {"in0": x}, runs)
        if runs > 1:
            one["inputs"]["state"] = recorded("", stored, {"in0": x}, runs - 1)["outputs"]["out0"]
        one["outputs"]["state/next"] = one["outputs"]["out0"]
        yield one


def composite():
    def change(whole, graph, step):
        """Move the operator into a subgraph, which a composite of StableHLO runs twice."""
        whole.operatorCodes.append(schema.OperatorCodeT())
        whole.operatorCodes[1].builtinCode = schema.BuiltinOperator.STABLEHLO_COMPOSITE
        whole.operatorCodes[1].deprecatedBuiltinCode, whole.operatorCodes[1].version = 127, 1
        body = schema.SubGraphT()
        body.name, body.tensors, body.operators = "body", list(graph.tensors), [step]
        body.inputs, body.outputs = list(graph.inputs), list(graph.outputs)
        whole.subgraphs.append(body)
        middle = schema.TensorT()
        middle.name, middle.shape, middle.type, middle.buffer = "middle", [2, 3], 0, 0
        graph.tensors = [*graph.tensors, middle]
        x, y, z = graph.inputs[0], graph.inputs[1], graph.outputs[0]
        graph.operators = []
        for inputs, output in (([x, y], len(graph.tensors) - 1), ([len(graph.tensors) - 1, x], z)):
            one = schema.OperatorT()
            one.opcodeIndex, one.inputs, one.outputs = 1, inputs, [output]
            one.builtinOptions2Type = schema.BuiltinOptions2.StableHLOCompositeOptions
            one.builtinOptions2 = schema.StableHLOCompositeOptionsT()
            one.builtinOptions2.name, one.builtinOptions2.decompositionSubgraphIndex = "odml.difference", 1
            one.builtinOptions2.compositeAttributes = np.frombuffer(flexbuffers.Dumps({}), np.uint8)
            graph.operators.append(one)

    x, y = noise(2, 3), noise(2, 3, seed=1)
    stored = model("SQUARED_DIFFERENCE", [x, y], ("SquaredDifferenceOptions", {}), [((2, 3), F)], 1, change)
    yield recorded("STABLEHLO_COMPOSITE", stored, {"in0": x, "in1": y})


def quantized():
    x, features = values(noise(2, 3)), weights(noise(8, 3), per_channel=False)
    held = float(np.abs(noise(2, 3) @ noise(8, 3).T).max()) / 2**15
    times = ("const", Q(noise(8, 5, seed=1), I16, float(np.abs(noise(8, 5, seed=1)).max()) / 32767))
    steps = ("const", Q(noise(4, seed=2), I32, held * times[1].scale))
    parts = [x, features, times, steps, state(2, 40, q=Q(None, I16, held))]
    to = values(np.array([-9, 9], F), I8)
    for title, runs in (("first", 1), ("later", 6)):
        how = ("SVDFOptions", {"rank": 2, "fusedActivationFunction": RELU})
        yield case(f"SVDF int8 {title}", parts, how, [((2, 4), to)], version=4, runs=runs)
    for title, gate, steps, cell in (("plain", True, 5, -11), ("coupled", False, 3, -12), ("long", True, 12, -13)):
        x, floats, held = values(noise(2, steps, 3, scale=1.5)), lstm_weights(1, gate=gate), values(noise(9) / 3)
        parts = int8(floats)
        for i in range(0 if gate else 1, 4):
            parts[11 + i] = ("const", Q(floats[11 + i][1], I32, x.scale * parts[i][1].scale))

        def change(whole, graph, step, held=held):
            step.intermediates = []
            for i in range(5):  # the first four are those of layer normalization, the last one is of the output
                tensor = schema.TensorT()
                tensor.name, tensor.shape, tensor.buffer = f"intermediate{i}", [], 0
                tensor.type = schema.TensorType.INT8 if i == 4 else schema.TensorType.INT16
                tensor.quantization = schema.QuantizationParametersT()
                tensor.quantization.scale = [held.scale if i == 4 else 2.0**-12]
                tensor.quantization.zeroPoint = [held.zero if i == 4 else 0]
                step.intermediates.append(len(graph.tensors))
                graph.tensors.append(tensor)

        cells = state(2, 4, q=Q(None, I16, 2.0**cell))
        inputs = [x, *parts, state(2, 4, q=Q(None, I8, held.scale, held.zero)), cells, *[None] * 4]
        options = ("UnidirectionalSequenceLSTMOptions", {"fusedActivationFunction": TANH})
        name = f"UNIDIRECTIONAL_SEQUENCE_LSTM int8 {title}"
        yield case(name, inputs, options, [((2, steps, 4), held)], version=3, later=change)


def refused():
    """Return the models that test_reader.py reads, by name."""

    def spectrum(*kinds):
        inputs = [noise(2, 4, 8), c([4, 8], I32)]
        return model("RFFT2D", inputs, ("Rfft2dOptions", {}), [((2, 4, 5), F)], 1, then(*kinds))

    models = {
        "computed": with_operator(first_value=False),
        "unset": with_operator(subgraph=False),
        "complex output": spectrum(),
        "complex sum": spectrum(("ABS", None, [2, 4, 5], None)),
    }
    return {name: np.frombuffer(stored, np.uint8) for name, stored in models.items()}


if __name__ == "__main__":
    save("states.npz", [*steps(), *hybrids(), *complex_numbers(), *variables(), *composite()])
    save("quantized_states.npz", [*quantized()])
    np.savez_compressed(Path(__file__).with_name("refused.npz"), **refused())
