"""The code of a module under construction: attributes with their arrays, and scopes of statements."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anylayer.errors import LayerError
from anylayer.folders import template
from anylayer.generators._names import Names
from anylayer.graph import Op, Value
from anylayer.graph.facts import Producers
from anylayer.graph.sizes import Dim
from anylayer.network import Array, as_written
from anylayer.source import TracedNode
from anylayer.writers._target import present, require

INDENT = "    "
_WIDTH = 110
_GLOBALS = ("F", "Path", "Tensor", "load", "load_file", "network", "nn", "torch", "self", "n", "INPUTS", "OUTPUTS")
HELPERS = {
    text.partition("def ")[2].partition("(")[0]: text.strip("\n")
    for text in template(__file__, "helpers.py.in").split("\n\n\n")
}
"""The text of each function that a module may need because torch has none, by its name."""
RESERVED = frozenset((*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *_GLOBALS, *HELPERS))
"""Names that no function and no variable gets."""
_ATTRIBUTES = """
add_module apply bfloat16 buffers call_super_init children compile cpu cuda double dump_patches eval extra_repr
float forward get_buffer get_extra_state get_parameter get_submodule half ipu load_state_dict modules mtia
named_buffers named_children named_modules named_parameters parameters register_backward_hook register_buffer
register_forward_hook register_forward_pre_hook register_full_backward_hook register_full_backward_pre_hook
register_load_state_dict_post_hook register_module register_load_state_dict_pre_hook register_parameter
register_state_dict_post_hook register_state_dict_pre_hook requires_grad_ set_extra_state set_submodule
share_memory state_dict to to_empty train training type xpu zero_grad T_destination
"""
MODULE_ATTRIBUTES = frozenset(_ATTRIBUTES.split())
"""Attributes of every nn.Module, which no layer may replace. They are listed because torch is optional."""
BUFFERS = ("running_mean", "running_var", "num_batches_tracked")
"""The parts of the state of an nn.BatchNorm that are no parameters."""
DTYPES = {
    np.dtype(name): f"torch.{name}"
    for name in ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "bool", "uint8")
}
"""The torch dtype of each NumPy dtype, as it is written in code. For larger unsigned integers, torch lacks most
operators."""


@dataclass(slots=True)
class Attributes:
    """The attributes of the module: `lines` create them in `__init__`, and `state` holds their arrays.

    Equal modules and tensors share one attribute. `helpers` are the names of the functions of HELPERS that the
    code calls.
    """

    lines: list[str] = field(default_factory=list)
    state: dict[str, Array] = field(default_factory=dict)
    names: Names = field(default_factory=lambda: Names({*RESERVED, *MODULE_ATTRIBUTES}))
    known: dict[Any, str] = field(default_factory=dict)
    helpers: dict[str, None] = field(default_factory=dict)

    def module(
        self, stem: str, text: str, state: Mapping[str, Array], key: Sequence[Value | None], fixed: Iterable[str]
    ) -> str:
        """Return the attribute of an nn module. `key` are the values of its weights, for modules that share
        them. `fixed` are the parts of its state that are not trained."""
        found = self.known.get((text, *key))
        if found is None:
            name = self.names.new(stem, "layer")
            found = self.known[(text, *key)] = f"self.{name}"
            self.lines += [f"{found} = {text}", *(f"{found}.{part}.requires_grad_(False)" for part in fixed)]
            self.state.update({f"{name}.{part}": array for part, array in state.items()})
        return found

    def tensor(self, stem: str, array: Array, trainable: bool, key: object) -> str:
        """Return the attribute of a tensor: a parameter if it is trainable, else a buffer."""
        found = self.known.get(key)
        if found is None:
            name = self.names.new(stem, "constant")
            found = self.known[key] = f"self.{name}"
            kind = "" if array.dtype == np.float32 else f", dtype={dtype_of(array.dtype)}"
            empty = f"torch.zeros({tuple(array.shape)}{kind})"
            made = f"{found} = nn.Parameter({empty})" if trainable else f'self.register_buffer("{name}", {empty})'
            self.lines.append(made)
            self.state[name] = array
        return found


class Code:
    """A scope of statements: the `forward` of the module, or a function that `forward`, its `parent`, calls.

    `known` maps values to their expressions in this scope. `parameters` maps expressions of the parent to the
    function's parameters. `traced` is the current node, and `scope` its name. `batch` is the variable with the
    symbolic batch size `batch_size`, "" if there is none; `batch_used` says whether the code reads it. `position`
    is the index of the current operator, and `last_use` maps a value to the index of the last operator that reads
    it. `producers` maps a value to the operator that computes it. `_in_use` maps a variable to the index of its
    last reader, and `_versions` a blob to its current variable.
    """

    def __init__(self, attributes: Attributes, weights: Weights, parent: Code | None = None) -> None:
        self.attributes = attributes
        self.weights = weights
        self.parent = parent
        self.names = Names(RESERVED)
        self.known: dict[Value, str] = {}
        self.parameters: dict[str, str] = {}
        self.lines: list[str] = []
        self.scope: str = parent.scope if parent else ""
        self.traced: TracedNode | None = parent.traced if parent else None
        self.batch: str = parent.batch if parent else ""
        self.batch_size: Dim | None = parent.batch_size if parent else None
        self.batch_used = False
        self.position = 0
        self.last_use: dict[Value, int] = {}
        self.producers: Producers = parent.producers if parent else {}
        self._in_use: dict[str, int] = {}
        self._versions: dict[str, str] = {}

    # -------------------------------------------------------------------- values

    def tensor(self, value: Value | None, role: str = "constant") -> str:
        """Return an expression for a value. `role` names the attribute of a constant."""
        value = present(value)
        found = self.known.get(value)
        if found is not None:
            return found
        if value.const is not None:
            return self.array(value.const, role, value)
        if self.parent is None:
            raise LayerError(f"the value '{value.name}' is not computed by any operator")
        found = self.known[value] = self.parameter_for(self.parent.tensor(value), "x")
        return found

    def array(self, array: Array, role: str, key: object = None) -> str:
        """Return an expression for a constant array: an attribute of the module."""
        dtype_of(array.dtype)  # raises NotInTarget for a dtype that torch lacks
        if self.parent is not None:
            return self.parameter_for(self.parent.array(array, role, key), role)
        trainable = self.weights.has(array)
        key = (array.dtype.str, array.shape, array.tobytes()) if key is None else key
        return self.attributes.tensor(f"{self.scope}_{role}", array, trainable, key)

    def module(self, text: str, state: Mapping[str, Array], key: Sequence[Value | None]) -> str:
        """Return an expression for an nn module with these weights."""
        if self.parent is not None:
            return self.parameter_for(self.parent.module(text, state, key), "module")
        fixed = [part for part, array in state.items() if self.weights.is_constant(array)]
        return self.attributes.module(self.scope, text, state, key, [p for p in fixed if p not in BUFFERS])

    def parameter_for(self, expression: str, stem: str) -> str:
        """Return the parameter of this function that takes the value of an expression of its parent."""
        found = self.parameters.get(expression)
        if found is None:
            found = self.parameters[expression] = stem if expression == self.batch else self.names.new(stem)
        return found

    def number(self, value: Value | None, beside: Sequence[Any]) -> str | None:
        """Return a constant of one element as a number in code, if it does not change the shape of an operand of
        shape `beside`; else None.
        """
        if value is None or value.const is None or value.const.size != 1 or value.const.ndim > len(beside):
            return None
        return number(value.const.reshape(-1)[0])

    # --------------------------------------------------------------------- sizes

    def size(self, size: Any) -> str:
        """Return a size as an expression in Python code. Raises NotInTarget for a size that depends on data."""
        if not is_dynamic(size):
            return str(int(size))
        require(self.batch and isinstance(size, Dim), "a size that depends on data")
        require(size.base is self.batch_size, f"the size {size.name}, which is not a multiple of the batch size")
        if self.parent is not None:
            self.parameter_for(self.batch, "n")  # the name of the batch variable in every scope
            self.parent.batch_used = True
        self.batch_used = True
        n = self.batch
        return n if size.factor == 1 else f"{size.factor} * {n}"

    def sizes(self, shape: Sequence[Any], inferred: bool = False) -> str:
        """Return a shape as a tuple in Python code.

        inferred: whether a single dynamic size is written as -1, which lets torch compute it.
        """
        if inferred and sum(map(is_dynamic, shape)) == 1 and 0 not in shape:
            return in_tuple("-1" if is_dynamic(d) else str(int(d)) for d in shape)
        return in_tuple(self.size(d) for d in shape)

    def helper(self, name: str) -> str:
        """Return the name of a function of HELPERS, which the module will contain."""
        self.attributes.helpers[name] = None
        return name

    # ---------------------------------------------------------------- statements

    def line(self, text: str) -> None:
        """Append a statement."""
        self.lines.append(text)

    def new(self, stem: str) -> str:
        """Return the name of a new variable."""
        return self.names.new(stem)

    def define(self, value: Value, expression: str, stem: str, alone: bool = True) -> None:
        """Assign the expression of a value to a new variable. An expression that is already a name is kept.

        stem: the variable's name inside a function; in `forward`, it is named after the value. alone: whether this
        is its operator's only output, which may take the variable of an earlier version of its blob.
        """
        if not expression.isidentifier():
            name = self.new(stem) if self.parent else self.variable(value, alone)
            self.line(f"{name} = {expression}")
            expression = name
        self.known[value] = expression
        self._in_use[expression] = max(self._in_use.get(expression, 0), self.last_use.get(value, 0))

    def finish(self, results: Sequence[str]) -> None:
        """Append the return statement. If the last statement defines the only result, return its expression."""
        head = f"{results[0]} = "
        if len(results) == 1 and self.lines and self.lines[-1].startswith(head):
            self.lines[-1] = f"return {self.lines[-1].removeprefix(head)}"
        else:
            self.line(f"return {', '.join(results)}")

    def variable(self, value: Value, alone: bool) -> str:
        """Return the variable for a value of the network. The versions of a blob that is rewritten in place
        ("blob@layer", then "blob") share one, if no operator reads the earlier version later on."""
        blob = short(value.name.partition("@")[0])
        held = self._versions.get(blob)
        if held is None or not alone or self._in_use[held] > self.position:
            held = self.new(blob)
        self._versions[blob] = held
        self._in_use[held] = self.last_use.get(value, 0)
        return held


class Weights:
    """The arrays that are weights of the network: those that layers store, not those computed from sizes."""

    def __init__(self, blobs: Sequence[Array]) -> None:
        self._known = {_content(b) for b in blobs if b.dtype.kind == "f"}
        self.in_weighted_node = False
        """Whether the node that is written stores weights. Then each of its float arrays is one."""

    def is_constant(self, array: Array) -> bool:
        """Return whether an array of a node with weights is not one of them: its values are all equal, while
        convert/parameters.py has given each weight different values.
        """
        is_candidate = self.in_weighted_node and array.dtype == np.float32 and array.size > 1
        return is_candidate and bool((array == array.reshape(-1)[0]).all())

    def has(self, array: Array) -> bool:
        """Return whether an array is a weight."""
        return (
            array.dtype.kind == "f"
            and array.size > 1
            and (self.in_weighted_node or _content(array) in self._known)
        )


def _content(array: Array) -> tuple[int, int]:
    return array.size, hash(np.ascontiguousarray(array).tobytes())


def is_dynamic(size: Any) -> bool:
    """Return whether a size is not a number: a symbolic batch size, or one that depends on data."""
    return not isinstance(size, (int, np.integer))


def dtype_of(dtype: np.dtype[Any]) -> str:
    """Return the Python expression of a torch dtype. Raises NotInTarget for a dtype that torch lacks."""
    require(dtype in DTYPES, f"values of type {dtype.name}")
    return DTYPES[dtype]


def number(value: Any) -> str:
    """Return a NumPy scalar as a number in code, which rounds to the same value."""
    if isinstance(value, np.bool_):
        return str(bool(value))
    if isinstance(value, np.integer):
        return str(int(value))
    if not np.isfinite(value):
        return f'float("{float(value)}")'
    if isinstance(value, np.float32) and abs(value) < np.finfo(np.float32).max:
        return repr(as_written(value))
    return repr(float(value))


def short(name: str) -> str:
    """Return a value's name without the prefix "node/" of the tracer."""
    return name.rpartition("/")[2] or name


def in_tuple(parts: Any) -> str:
    """Return a tuple of these expressions in Python code."""
    listed = list(parts)
    return f"({listed[0]},)" if len(listed) == 1 else f"({', '.join(listed)})"


def call(head: str, arguments: Sequence[str], tail: str = ")") -> list[str]:
    """Return the lines of `head(arguments)`, with a line for each argument where one line is too long.

    tail: the text after the arguments.
    """
    whole = f"{head}({', '.join(arguments)}{tail}"
    if len(whole) <= _WIDTH:
        return [whole]
    return [f"{head}(", *(f"{INDENT}{argument}," for argument in arguments), tail]


def first(op: Op) -> Value:
    """Return the first input of an operator."""
    return present(op.inputs[0])
