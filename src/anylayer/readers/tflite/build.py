"""From the tables of a file to a Network: tensors become values and constants, operators become nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from anylayer.errors import FileError, NetworkError, at, need, some
from anylayer.layer import Registry
from anylayer.network import (
    MAX_RANK,
    MAX_VALUES,
    Array,
    Network,
    Node,
    Steps,
    Subgraph,
    TensorType,
    as_written,
    reshaped,
)
from anylayer.readers._arrays import four_bit_integers
from anylayer.readers._limits import MAX_GRAPH_NESTING, MAX_NODES, MAX_OPERATION_OUTPUTS
from anylayer.readers._names import layer_place, unique
from anylayer.readers.tflite.flatbuffer import FlatTable
from anylayer.readers.tflite.flexbuffer import options_of
from anylayer.readers.tflite.metadata import add_metadata, add_signatures
from anylayer.readers.tflite.schema import (
    COMPLEX,
    CONSTANT,
    ENUMS,
    OPERATORS,
    OPTIONS,
    READ,
    REAL_PART,
    STATES,
    STEPS,
    SUBGRAPHS,
    TABLES,
    VARIABLES,
)
from anylayer.readers.tflite.sparse import dense

_READ = ("float32", "float16", "int32", "int64", "bool", "int8", "uint8", "int16")
"""The types of tensors that are read. Constants of int4 are read as int8."""
_MAX_TENSORS = 16 * MAX_NODES
_CUSTOM, _COMPOSITE_OPTIONS = 32, 21
_TYPES = ENUMS["TensorType"].split()


def build(model: FlatTable, path: Path, user_types: frozenset[str]) -> Network:
    """Return the network of a model. Raise FileError or NetworkError."""
    version = model.number("version", "I")
    need(version == 3, f"version {version} of the format is not supported, only 3", FileError)
    return _Builder(_Subgraphs(model, path, user_types), 0).network


@dataclass(frozen=True, slots=True)
class _Tensor:
    """A tensor of the file: `name` is that of its value, `signature` its shape with -1 for open sizes, `value` its
    constant value, `steps` its scales, zero points and their axis where it is quantized, and `refusal` says why it
    cannot be read.
    """

    name: str
    shape: tuple[int, ...]
    signature: list[int]
    dtype: str
    value: Array | None
    steps: Steps | None
    refusal: str


@dataclass(slots=True)
class _Subgraphs:
    """What the subgraphs of a model share, the operators that they may still have, and variables' values."""

    model: FlatTable
    path: Path
    user_types: frozenset[str]
    codes: list[tuple[str, int, bool]] = field(init=False)
    buffers: list[FlatTable] = field(init=False)
    graphs: list[FlatTable] = field(init=False)
    left: int = MAX_NODES
    initial: dict[str, _Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.codes = [_code(c) for c in self.model.tables("operator_codes", "OperatorCode", MAX_NODES)]
        self.buffers = self.model.tables("buffers", "Buffer", _MAX_TENSORS)
        self.graphs = self.model.tables("subgraphs", "SubGraph", MAX_NODES)
        need(self.graphs, "it has no subgraph", NetworkError)


@dataclass(slots=True)
class _Builder:
    """A builder of a Network from a subgraph. depth: how many operators are around it. sets_variables: whether it
    runs once, before the network.

    `handles` has the variable that a tensor refers to, `current` the tensor with a variable's value, and `states`
    the variable whose first value an input of the network is.
    """

    file: _Subgraphs
    number: int
    depth: int = 0
    sets_variables: bool = False
    network: Network = field(init=False)
    tensors: list[_Tensor] = field(init=False)
    variables: set[str] = field(init=False)
    counts: dict[str, int] = field(default_factory=dict)
    produced: set[str] = field(default_factory=set)
    handles: dict[str, str] = field(default_factory=dict)
    current: dict[str, _Tensor] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        file, graph = self.file, self.file.graphs[self.number]
        path = str(file.path)
        name = graph.text("name") if self.depth else file.path.stem
        self.network = Network(name, "tflite", {}, [], {}, source=path, weights=path)
        tables = graph.tables("tensors", "Tensor", _MAX_TENSORS)
        self.tensors = [self._tensor(table, file.buffers) for table in tables]
        self.variables = {t.name for t, table in zip(self.tensors, tables) if table.number("is_variable", "?")}
        for i in self._indices(graph, "inputs"):
            self._input(self._at(i))
        operators = graph.tables("operators", "Operator", MAX_NODES)
        file.left -= len(operators)
        rule = f"with the subgraphs that they run, there are more than {MAX_NODES} operators"
        need(file.left >= 0, rule, NetworkError)
        names: dict[str, int] = {}
        for table in operators:
            index = table.number("opcode_index", "I")
            need(index < len(file.codes), f"an operator has type {index} of {len(file.codes)}", FileError)
            self._operator(table, *file.codes[index], names)
        for i, index in enumerate(self._indices(graph, "outputs")):
            tensor = self._at(index)
            with at(f"output '{tensor.name}'"):
                self._need_value(tensor)
                need(tensor.dtype != "complex64", "complex outputs are not supported", NetworkError)
            self.network.outputs[str(i) if self.depth else tensor.name] = tensor.name
        need(self.network.outputs or self.depth, "it has no outputs", NetworkError)
        for name, variable in self.states.items():
            self.network.outputs[unique(f"{name}/next", self.counts)] = self.current[variable].name
        if self.states:
            rule = "may be left out; output '.../next' is the input of the next run"
            self.network.notes.append(f"the state {some([*self.states], 10)} {rule}")
        if not self.depth:
            add_signatures(file.model, self.network, [t.name for t in self.tensors])
            add_metadata(file.model, file.buffers, self.network)

    def _inside(self, option: object, sets_variables: bool = False) -> Subgraph:
        """Return the subgraph that an operator runs, whose number is an option."""
        number, count = option if isinstance(option, int) else 0, len(self.file.graphs)
        need(0 < number < count, f"it runs subgraph {number}; there are 1 to {count - 1}", FileError)
        limit = MAX_GRAPH_NESTING
        need(self.depth < limit, f"its subgraphs are nested deeper than {limit}", NetworkError)
        return Subgraph(_Builder(self.file, number, self.depth + 1, sets_variables).network, [])

    def _indices(self, table: FlatTable, name: str) -> list[int]:
        """Return the indices of tensors."""
        indices = table.numbers(name, np.int32)
        rule = f"{len(indices)} {name}; the limit is {MAX_OPERATION_OUTPUTS}"
        need(len(indices) <= MAX_OPERATION_OUTPUTS, rule, NetworkError)
        return indices

    def _variable(
        self, kind: str, options: dict[str, object], inputs: list[_Tensor | None], outputs: list[_Tensor]
    ) -> _Tensor | None:
        """Follow an operator of variables. Return the tensor that it reads, or None where it reads none."""
        arguments = [t for t in inputs if t is not None]
        fits = (len(arguments), len(inputs), len(outputs)) == VARIABLES[kind]
        need(fits, f"it has {len(inputs)} inputs and {len(outputs)} outputs", FileError)
        if kind == "VAR_HANDLE":
            self.handles[outputs[0].name] = f"{options.get('container', '')}/{options.get('shared_name', '')}"
            return None
        name, initial = arguments[0].name, self.file.initial
        need(name in self.handles, f"its input '{name}' is no variable", FileError)
        variable = self.handles[name]
        if kind == READ:
            return self._value_of(variable, name, initial.get(variable))
        if self.sets_variables:
            rule = f"the first value of the variable '{name}' is computed, which is not supported"
            need(arguments[1].value is not None, rule, NetworkError)
            initial[variable] = arguments[1]
        else:
            self._need_value(arguments[1])
            self.current[variable] = arguments[1]
        return None

    def _value_of(self, variable: str, name: str, initial: _Tensor | None) -> _Tensor:
        """Return the tensor with the value of a variable: an input of the network, until an operator sets it."""
        need(not self.depth, "variables in subgraphs are not supported", NetworkError)
        if variable not in self.current:
            if initial is None or initial.value is None:
                raise NetworkError(f"the variable '{name}' has no first value")
            self.current[variable] = replace(initial, name=name, value=None)
            self._input(self.current[variable])
            self.network.initial[name], self.states[name] = initial.value, variable
        return self.current[variable]

    def _step(self, name: str, index: int, state: _Tensor | None) -> tuple[_Tensor, _Tensor]:
        """Return the tensors with the state of an operator before and after it."""
        if state is None or state.name not in self.variables:
            raise NetworkError(f"its input {index} is no variable")
        zero = np.zeros(1, state.dtype) if state.steps is None else state.steps[1].reshape(-1)[:1]
        first = replace(state, value=np.broadcast_to(zero, state.shape), refusal="")
        before = self._value_of(state.name, state.name, first)
        self.current[state.name] = replace(before, name=unique(f"{name}/state", self.counts))
        return before, self.current[state.name]

    def _at(self, index: int) -> _Tensor:
        need(0 <= index < len(self.tensors), f"there is no tensor {index} of {len(self.tensors)}", FileError)
        return self.tensors[index]

    def _tensor(self, table: FlatTable, buffers: list[FlatTable]) -> _Tensor:
        name = unique(table.text("name") or "tensor", self.counts)
        with at(f"tensor '{name}'"):
            number = table.number("type", "b")
            need(0 <= number < len(_TYPES), f"its type {number} is not known", FileError)
            dtype, shape = _TYPES[number], table.numbers("shape", np.int32)
            need(len(shape) <= MAX_RANK, f"it has {len(shape)} axes; the limit is {MAX_RANK}", FileError)
            fits = all(d >= 0 for d in shape) and math.prod(shape) <= MAX_VALUES
            need(fits, f"its shape {shape} is not supported", FileError)
            signature = table.numbers("shape_signature", np.int32) or shape
            fits = len(signature) == len(shape) and all(s in (d, -1) for s, d in zip(signature, shape))
            need(fits, f"its shape {shape} does not agree with its signature {signature}", FileError)
            refusal = _refusal(table, dtype)
            value = None if refusal else self._value(table, buffers, dtype, tuple(shape))
            if dtype == "int4" and not refusal:
                dtype, refusal = "int8", "" if value is not None else "is computed in int4, which is not supported"
            steps = None if refusal else _steps(table, dtype, shape)
            if value is not None and dtype == "complex64":
                refusal = "is a constant of complex numbers, which is not supported"
            if table.number("is_variable", "?"):
                refusal = refusal or "is a variable, which is not supported"
            return _Tensor(name, tuple(shape), signature, dtype, value, steps, refusal)

    def _value(
        self, table: FlatTable, buffers: list[FlatTable], dtype: str, shape: tuple[int, ...]
    ) -> Array | None:
        """Return the value of a tensor, or None where it is computed."""
        index = table.number("buffer", "I")
        if not index:  # buffer 0 is that of computed tensors
            return None
        need(index < len(buffers), f"there is no buffer {index} of {len(buffers)}", FileError)
        stored = buffers[index].view("data")
        offset, length = (buffers[index].number(name, "Q") for name in ("offset", "size"))
        if offset > 1:  # a file of more than 2 GiB holds values after its tables
            stored = table.buffer.array(offset, length, np.uint8)
        count = math.prod(shape)
        if not stored.size and count:
            return None
        sparsity = table.table("sparsity", TABLES["SparsityParameters"])
        need(sparsity is None or dtype != "int4", "it is sparse in int4, which is not supported", NetworkError)
        if sparsity is not None:
            count = stored.size // np.dtype(dtype).itemsize
        size = -(-count // 2) if dtype == "int4" else count * np.dtype(dtype).itemsize
        need(stored.size == size, f"it has {stored.size} bytes, expected {size}", FileError)
        if dtype == "bool":
            need(bool((stored <= 1).all()), "its values are neither true nor false", FileError)
        if dtype == "int4":
            return reshaped(four_bit_integers(stored, count, signed=True), shape)
        values = stored.view(dtype)
        return reshaped(values, shape) if sparsity is None else dense(sparsity, values, shape)

    def _need_value(self, tensor: _Tensor) -> None:
        """Add the value of a constant tensor. Refuse a tensor that is not supported, or that nothing produces."""
        need(not tensor.refusal, f"tensor '{tensor.name}' {tensor.refusal}", NetworkError)
        if tensor.value is not None and tensor.name not in self.produced:
            place = layer_place(tensor.name, CONSTANT, str(self.file.path))
            node = Node(tensor.name, CONSTANT, [], [tensor.name], blobs=[tensor.value], place=place)
            self.network.nodes.append(node)
            self.produced.add(tensor.name)
        rule = f"no operator before it produces tensor '{tensor.name}'"
        need(tensor.name in self.produced, rule, NetworkError)

    def _need_new(self, tensor: _Tensor) -> None:
        """Refuse a tensor that is produced before or not supported. One without elements may be a constant."""
        need(not tensor.refusal, f"tensor '{tensor.name}' {tensor.refusal}", NetworkError)
        is_new = tensor.name not in self.produced and (tensor.value is None or not tensor.value.size)
        need(is_new, f"tensor '{tensor.name}' has a value before", NetworkError)
        self.produced.add(tensor.name)

    def _input(self, tensor: _Tensor) -> None:
        network, name = self.network, tensor.name
        with at(f"input '{name}'"):
            self._need_new(tensor)
            need(tensor.dtype != "complex64", "complex inputs are not supported", NetworkError)
        sizes = tuple(None if d == -1 else d for d in tensor.signature)
        network.add_input(name, sizes, tensor.dtype, channels_last=True)

    def _operator(self, table: FlatTable, kind: str, version: int, is_custom: bool, names: dict[str, int]) -> None:
        outputs = [self._at(i) for i in self._indices(table, "outputs")]
        name = unique(outputs[0].name if outputs else kind, names)
        place = layer_place(name, kind, str(self.file.path))
        with at(place):
            inputs = [None if i == -1 else self._at(i) for i in self._indices(table, "inputs")]
            params = _custom_options(table) if is_custom else _builtin_options(table)
            if kind in VARIABLES:
                source = self._variable(kind, params, inputs, outputs)
                if source is None:
                    return
                inputs = [source]
            dtypes = [t.dtype for t in (*inputs, *outputs) if t is not None]
            if kind == REAL_PART[0] and dtypes == ["complex64", "float32"]:
                kind, params = REAL_PART[1], {}
            rule = f"complex numbers are supported only in {', '.join(COMPLEX)}"
            need("complex64" not in dtypes or kind in COMPLEX, rule, NetworkError)
            for i in STEPS.get(kind, ()):
                if i < len(inputs):
                    inputs[i], following = self._step(name, i, inputs[i])
                    outputs.append(following)
            last = self._indices(table, "intermediates")[4:5] if kind in STATES else []
            held: list[_Tensor | None] = [self._at(i) for i in last if i != -1]
            for i in STATES.get(kind, ()):
                state = inputs[i] if i < len(inputs) else None
                held.append(state)
                need(state is None or state.name in self.variables, f"its input {i} is no variable", NetworkError)
                inputs[i : i + 1] = [None] * (i < len(inputs))
            for tensor in outputs:
                self._need_new(tensor)
            constants: list[_Tensor] = []
            if kind in self.file.user_types or not Registry.of("tflite").find(kind):
                constants = [t for t in inputs if t is not None and t.value is not None]
                inputs = [t for t in inputs if t is None or t.value is None]
                for tensor in outputs:
                    if -1 not in tensor.signature:
                        self.network.declared[tensor.name] = TensorType.of(tensor.shape, tensor.dtype)
            for source in inputs:
                if source is not None:
                    self._need_value(source)
            if kind in SUBGRAPHS:
                is_once = kind == "CALL_ONCE"
                graphs = {
                    name: self._inside(params.get(option), is_once) for option, name in SUBGRAPHS[kind].items()
                }
                if is_once:
                    rule = "it computes more than the first values of variables, which is not supported"
                    need(not graphs["body"].network.nodes and not self.current, rule, NetworkError)
                    return
                params = {**graphs}
        settings: dict[str, object] = {"dtypes": [t.dtype for t in outputs]}
        steps = [[None if t is None else t.steps for t in tensors] for tensors in (inputs, outputs, constants)]
        if any(any(s) for s in steps):
            settings["steps"] = steps
            settings["states"] = [None if t is None else t.steps for t in held]
        blobs = [t.value for t in constants if t.value is not None]
        self.network.nodes.append(
            Node(
                name, kind, ["" if t is None else t.name for t in inputs], [t.name for t in outputs],
                {"options": params}, blobs, place, settings=settings, layout="NHWC", version=version,
            )
        )  # fmt: skip


def _code(table: FlatTable) -> tuple[str, int, bool]:
    """Return the type of operators, its version, and whether it is custom."""
    number = max(table.number("deprecated_builtin_code", "b"), table.number("builtin_code", "i"))
    version = table.number("version", "i", 1)
    if number == _CUSTOM:
        name = table.text("custom_code")
        need(name, "a custom operator has no name", FileError)
        rule = f"the custom operator '{name}' has the name of a builtin operator"
        need(name != CONSTANT and name not in OPERATORS.values(), rule, NetworkError)
        return name, version, True
    rule = f"builtin operator {number} is newer than those that are known, or of StableHLO"
    need(number in OPERATORS, rule, NetworkError)
    return OPERATORS[number], version, False


def _refusal(table: FlatTable, dtype: str) -> str:
    """Return why a tensor is not supported, or ""."""
    quantization = table.table("quantization", TABLES["QuantizationParameters"])
    if quantization is not None and quantization.number("details_type", "B"):
        return "is quantized in blocks or by code that is not in the file, which is not supported"
    if dtype not in (*_READ, "int4", "complex64"):
        return f"is of type {dtype}; supported are {', '.join(_READ)}"
    if table.number("external_buffer", "I"):
        return "has its value in another file, which is not supported"
    return ""


def _steps(table: FlatTable, dtype: str, shape: list[int]) -> Steps | None:
    """Return the scales and zero points of a tensor of integers, and the axis along which they are, or None."""
    stored = table.table("quantization", TABLES["QuantizationParameters"])
    scale = np.empty(0) if stored is None else stored.view("scale", np.float32)
    if stored is None or not scale.size or np.dtype(dtype).kind not in "iu":
        return None
    zero, axis = stored.view("zero_point", np.int64), stored.number("quantized_dimension", "i")
    fits = scale.size == 1 or (0 <= axis < len(shape) and shape[axis] == scale.size)
    need(fits, f"it has {scale.size} scales along axis {axis} of shape {shape}", FileError)
    need(bool((np.isfinite(scale) & (scale > 0)).all()), "its scales must be positive", FileError)
    need(zero.size in (0, 1, scale.size), f"it has {zero.size} zero points for {scale.size} scales", FileError)
    limits = np.iinfo(dtype)
    fits = bool(((zero >= limits.min) & (zero <= limits.max)).all())
    need(fits, f"its zero points do not fit {dtype}", FileError)
    zeros = np.broadcast_to(zero.astype(dtype) if zero.size else np.zeros(1, dtype), scale.shape)
    size = () if scale.size == 1 else scale.shape
    return stored.buffer.take(scale).reshape(size), zeros.reshape(size), axis


def _custom_options(table: FlatTable) -> dict[str, object]:
    """Return the options of a custom operator: its bytes, and the values in them if they are a FlexBuffer."""
    offset, size = (table.number(f"large_custom_options_{name}", "Q") for name in ("offset", "size"))
    stored = table.buffer.array(offset, size, np.uint8) if offset > 1 else table.view("custom_options")
    data = table.buffer.take(stored).tobytes()
    return {**options_of(data), "custom_options": data}


def _builtin_options(table: FlatTable) -> dict[str, object]:
    """Return the options of a builtin operator."""
    number = table.number("builtin_options_type", "B")
    need(number < len(OPTIONS), f"its options are of type {number}, which is not known", FileError)
    other = table.table("builtin_options_2", TABLES["StableHLOCompositeOptions"])
    if table.number("builtin_options_2_type", "B") == _COMPOSITE_OPTIONS and other is not None:
        return {"decomposition_subgraph_index": other.number("decomposition_subgraph_index", "i")}
    need(not table.number("builtin_options_2_type", "B"), "options of StableHLO are not supported", NetworkError)
    stored = table.table("builtin_options", {name: i for i, (name, _, _) in enumerate(OPTIONS[number])})
    if stored is None:
        return {}
    return {name: _option(stored, name, kind, default) for name, kind, default in OPTIONS[number] if kind}


def _option(table: FlatTable, name: str, kind: str, default: int) -> object:
    """Return one option: a number, a text, a list of numbers, or the name of an enumeration's value."""
    if kind == "s":
        return table.text(name)
    if kind.startswith("["):
        return table.numbers(name, np.dtype(kind[1:]))
    if kind == "f":
        return as_written(table.real(name))
    if kind not in ENUMS:
        value = table.number(name, kind, default)
        return bool(value) if kind == "?" else value
    number, names = table.number(name, "b", default), ENUMS[kind].split()
    need(0 <= number < len(names), f"its option '{name}' has the value {number}, which is not known", FileError)
    return names[number]
