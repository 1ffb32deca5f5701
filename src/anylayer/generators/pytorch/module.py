"""Write a traced network as the source code of an nn.Module, and collect the arrays of its state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from anylayer.errors import at, need
from anylayer.folders import load_all
from anylayer.generators._names import comment, common_folder
from anylayer.generators.pytorch.code import DTYPES, HELPERS, INDENT, Attributes, Code, Weights, call, in_tuple
from anylayer.generators.pytorch.forms import recognized
from anylayer.generators.pytorch.operators import refusing, write, write_with_lines
from anylayer.graph import Graph, Op, Value
from anylayer.graph.sizes import Dim
from anylayer.network import Array, TensorType
from anylayer.source import Source, TracedNode

_INLINE = 4
"""The largest number of operators of a built-in layer that stand in `forward`; more become a function."""


@dataclass(slots=True)
class ModuleCode:
    """The source code of a module, the name of its class, and its state."""

    text: str
    name: str
    state: dict[str, Array] = field(default_factory=dict)


def write_module(source: Source) -> ModuleCode:
    """Return the module of a network. Raises LayerError for an operator that PyTorch cannot express."""
    load_all("generators/pytorch/operators")
    return _Module(source).written()


class _Module:
    """A module under construction.

    `functions` maps the text of a function without its name to the name. `blocks` are the texts of functions.
    `names` are the names of functions, of the class and of the variables of `forward`, which must be unique.
    `prefix` is the part that the names of all nodes share, which attributes leave out.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.nodes = {t.node.name: t for t in source.nodes}
        self.attributes = Attributes()
        self.weights = Weights([b for t in source.nodes for b in t.node.blobs])
        self.code = Code(self.attributes, self.weights)
        self.names = self.code.names
        self.functions: dict[str, str] = {}
        self.blocks: list[str] = []
        self.batch = ""
        self.prefix = ""
        self.places: dict[Op, int] = {}

    def written(self) -> ModuleCode:
        graph = self.source.graph
        name = self.names.new(_class_name(self.source.network.name), "Network")
        for value in graph.inputs:
            need(
                value.dtype in DTYPES,
                f"torch has no tensors of {value.dtype.name}, the type of input '{value.name}'",
            )
        arguments = [self.code.new(v.name) for v in graph.inputs]
        self.code.known.update(zip(graph.inputs, arguments))
        self.code.producers = graph.producers
        for value, argument in zip(graph.inputs, arguments):
            self.code.line(self.expected(value, argument))
        self.bind_batch(graph, arguments)
        plain = {n: not any(b.dtype.kind == "f" for b in t.node.blobs) for n, t in self.nodes.items()}
        users = {n for n, t in self.nodes.items() if t.node.type in self.source.user_types}
        live = recognized(graph, plain, users)
        self.prefix = common_folder(op.scope for op in live)
        self.code.last_use = {v: i for i, op in enumerate(live) for v in op.inputs if v is not None}
        self.code.last_use.update(dict.fromkeys(graph.outputs, len(live)))
        self.places = {op: i for i, op in enumerate(live)}
        for scope, ops in _groups(live):
            self.group(scope, ops)
        self.code.scope = ""
        with at(self.source.network.source), refusing(" (a constant output)"):
            results = [self.code.tensor(v) for v in graph.outputs]
        self.code.finish(results)
        return ModuleCode(self.text(name, arguments, len(results)), name, self.attributes.state)

    def expected(self, value: Value, argument: str) -> str:
        """Return the statement that checks an input's shape, because the traced sizes are numbers in the code."""
        sizes = in_tuple("None" if isinstance(d, Dim) else str(int(d)) for d in value.shape)
        return f"{self.code.helper('expect_shape')}({value.name!a}, {argument}, {sizes})"

    def bind_batch(self, graph: Graph, arguments: Sequence[str]) -> None:
        """Append the statement that assigns the symbolic batch size to `n`."""
        if self.source.sizes is None:
            return
        for value, argument in zip(graph.inputs, arguments):
            for axis, size in enumerate(value.shape):
                if isinstance(size, Dim) and size.factor == 1:
                    self.code.batch_size = size
                    self.code.batch, self.batch = "n", f"n = {argument}.shape[{axis}]"
                    return

    # --------------------------------------------------------------------- nodes

    def group(self, scope: str, ops: Sequence[Op]) -> None:
        """Write the operators of one node, in `forward` or as a function."""
        traced = self.nodes.get(scope)
        own = traced is not None and traced.node.type in self.source.user_types
        self.code.scope = scope.removeprefix(self.prefix)
        self.weights.in_weighted_node = traced is not None and not own and bool(traced.node.blobs)
        self.code.traced = traced
        if own or len(ops) > _INLINE or any(op.op == "Loop" for op in ops):
            self.function(traced, scope, ops)
            return
        if len(ops) > 1:
            self.code.line(f"# {comment(_described(scope, traced))}")
        for op in ops:
            self.code.position = self.places[op]
            write(self.code, op)

    def function(self, traced: TracedNode | None, scope: str, ops: Sequence[Op]) -> None:
        """Write operators as a function, and call it. Equal functions are written once."""
        code = Code(self.attributes, self.weights, self.code)
        write_with_lines(code, ops)
        inside = [v for op in ops for v in op.outputs]
        end = self.places[ops[-1]]
        results = [v for v in inside if self.code.last_use.get(v, -1) > end]
        code.finish([code.known[v] for v in results])
        called = self.defined(code, traced, scope, len(results))
        self.code.position = self.places[ops[-1]]
        names = [self.code.variable(v, len(results) == 1) for v in results]
        self.code.lines += call(f"{', '.join(names)} = {called}", list(code.parameters))
        self.code.known.update(zip(results, names))

    def defined(self, code: Code, traced: TracedNode | None, scope: str, results: int) -> str:
        """Return the name of the function with this code, and write it if there is none yet."""
        type_ = traced.node.type if traced else scope
        kinds = [f"{p}: {_annotation(e)}" for e, p in code.parameters.items()]
        returned = "Tensor" if results == 1 else "tuple[Tensor, ...]"
        body = [f"{INDENT}{line}" for line in code.lines]
        key = "\n".join([type_, *kinds, *body])
        if key not in self.functions:
            name = self.functions[key] = self.names.new(f"{_snake(type_)}_layer", "custom")
            head = call(f"def {name}", kinds, f") -> {returned}:")
            about = f"The layer type {type_}" + (f", as {_origin(traced)} defines it" if traced else "")
            self.blocks.append("\n".join([f"# {comment(about)}", *head, *body]))
        return self.functions[key]

    # ---------------------------------------------------------------------- text

    def text(self, name: str, arguments: Sequence[str], results: int) -> str:
        """Return the whole file. Text from the network's file stands in comments and strings only."""
        network = self.source.network
        kinds = [comment(f"{name}: {self.described(kind)}") for name, kind in self.source.inputs.items()]
        returned = "Tensor" if results == 1 else "tuple[Tensor, ...]"
        init = ["super().__init__()", *self.attributes.lines]
        helpers = [HELPERS[name] for name in self.attributes.helpers]
        blocks = [
            '"""A neural network as a PyTorch module, written by anylayer. It needs torch and safetensors."""',
            "",
            f"# Source: {comment(Path(network.source).name)}",
            *(f"# Input {kind}" for kind in kinds),
            "",
            "from pathlib import Path",
            "",
            "import torch",
            "from torch import Tensor, nn",
            "from torch.nn import functional as F",
            "",
            f"INPUTS = {in_tuple(map(ascii, self.source.inputs))}",
            f"OUTPUTS = {in_tuple(map(ascii, self.source.outputs))}",
            "",
            "",
            *(line for block in [*helpers, *self.blocks] for line in (block, "", "")),
            f"class {name}(nn.Module):",
            f'{INDENT}"""The network. `forward` takes INPUTS and returns OUTPUTS, in their order."""',
            "",
            f"{INDENT}def __init__(self) -> None:",
            *(f"{INDENT * 2}{line}" for line in init),
            "",
            *(f"{INDENT}{line}" for line in _forward(arguments, returned)),
            *(f"{INDENT * 2}{line}" for line in [*[self.batch] * self.code.batch_used, *self.code.lines]),
            "",
            "",
            _LOAD.format(name=name),
        ]
        return "\n".join(blocks)

    def described(self, kind: TensorType) -> str:
        """Return the type of an input, with the name of a symbolic size in place of the size."""
        sizes = ", ".join(d.name if isinstance(d, Dim) else str(d) for d in kind.shape)
        return f"{kind.dtype.name}[{sizes}]"


_LOAD = '''def load(weights: Path | str = Path(__file__).with_name("model.safetensors")) -> {name}:
    """Return the network with its weights, in the mode for inference."""
    from safetensors.torch import load_file

    network = {name}()
    network.load_state_dict(load_file(weights))
    return network.eval()
'''


def _forward(arguments: Sequence[str], returned: str) -> list[str]:
    return call("def forward", ["self", *(f"{a}: Tensor" for a in arguments)], f") -> {returned}:")


def _groups(ops: Sequence[Op]) -> Iterator[tuple[str, list[Op]]]:
    """Yield (node, operators) for consecutive operators of a node. Those without a node belong to the next one."""
    waiting: list[Op] = []
    scope = ""
    for op in ops:
        if op.scope and scope and op.scope != scope:
            yield scope, waiting
            waiting = []
        scope = op.scope or scope
        waiting.append(op)
    if waiting:
        yield scope, waiting


def _described(scope: str, traced: TracedNode | None) -> str:
    return f"{scope} ({traced.node.type})" if traced else scope


def _origin(traced: TracedNode) -> str:
    if traced.bound is None or traced.bound.definition.built_in:
        return "anylayer"
    return Path(traced.bound.definition.origin).name


def _annotation(expression: str) -> str:
    """Return the type annotation of a function's parameter that takes this expression of `forward`."""
    return "int" if expression == "n" else "Tensor"


def _class_name(name: str) -> str:
    """Return a network's name as the name of a class: "mobile-net v2" becomes "MobileNetV2"."""
    parts = "".join(c if c.isascii() and c.isalnum() else " " for c in name).split()
    return "".join(part[:1].upper() + part[1:] for part in parts)


def _snake(name: str) -> str:
    """Return the name of a type as the name of a function: "PriorBox" becomes "prior_box"."""
    spaced = "".join(f"_{c}" if c.isupper() and i and not name[i - 1].isupper() else c for i, c in enumerate(name))
    return spaced.lower()
