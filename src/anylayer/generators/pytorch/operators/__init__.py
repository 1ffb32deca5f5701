"""The torch code of each ONNX operator, one theme per file. Each file registers its functions in HANDLERS."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from anylayer.errors import LayerError, at
from anylayer.folders import Table
from anylayer.generators._names import comment, source_line
from anylayer.generators.pytorch.code import Code, dtype_of, first, in_tuple, number
from anylayer.graph import Op, Value
from anylayer.writers._target import NotInTarget

Handler = Callable[[Code, Op], "str | list[str]"]
"""A function that returns the expression of an operator's output, or one expression per output. It may append
statements before. It raises NotInTarget for what torch cannot express."""

HANDLERS: Table[str, Handler] = Table()
"""The function of each operator."""

UNREAD: Table[str, tuple[int, ...]] = Table()
"""The inputs that the code of an operator does not read, because the shape of the output determines them."""


def writes(*ops: str, unread: tuple[int, ...] = ()) -> Callable[[Handler], Handler]:
    """Register the decorated function for these operators. `unread`: indices of inputs it does not read."""

    def enter(function: Handler) -> Handler:
        HANDLERS.enter(ops, function)
        UNREAD.enter(ops, unread)
        return function

    return enter


def formulas(texts: Mapping[str, str], *, unread: tuple[int, ...] = ()) -> None:
    """Register operators by their expressions. In braces, a number stands for an input, and a name for an
    attribute: a float, or the axis of the first input counted from the front. "shape" stands for the shape of the
    output, and "rest" for the axes from 2 on.
    """

    def expression(code: Code, op: Op) -> str:
        text, rank = texts[op.op], len(first(op).shape)
        words = dict.fromkeys(re.findall(r"{([a-z]+)}", text), "")
        for name in words:
            if name == "shape":
                words[name] = code.sizes(op.outputs[0].shape)
            elif name == "rest":
                words[name] = in_tuple(map(str, range(2, rank)))
            else:
                words[name] = str(op[name] % rank) if name == "axis" else number(np.float32(op[name]))
        return text.format(*(code.tensor(v) for i, v in enumerate(op.inputs) if i not in unread), **words)

    writes(*texts, unread=unread)(expression)


def write(code: Code, op: Op) -> None:
    """Write one operator. Raises LayerError, with the place of its node, where torch cannot express it."""
    handler = HANDLERS.get(op.op) if not op.domain else None
    line = f", which {op.place} computes" if op.place else ""
    with at(code.traced.node.place if code.traced else ""), refusing(f" ({op.op}{line})"):
        if handler is None:
            raise NotInTarget(f"the operator {op.op}")
        for value in op.outputs:
            dtype_of(value.dtype)
        text = handler(code, op)
    expressions = [text] if isinstance(text, str) else text
    for value, expression in zip(op.outputs, expressions):
        code.define(value, expression, op.op.lower(), alone=len(expressions) == 1)


def write_with_lines(code: Code, ops: Sequence[Op]) -> None:
    """Write operators in a function, below the source lines that recorded them."""
    place = ""
    for op in ops:
        if op.place and op.place != place:
            code.line(f"# {comment(source_line(op.place, code.traced.bound if code.traced else None))}")
            place = op.place
        write(code, op)


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Raise LayerError, which names the operator `what`, in place of NotInTarget."""
    try:
        yield
    except NotInTarget as error:
        raise LayerError(
            f"PyTorch code cannot express {error}{what}. Write the layer in other NumPy operations, or convert "
            "the network to ONNX"
        ) from None


def live_operators(ops: Sequence[Op], outputs: Sequence[Value]) -> list[Op]:
    """Return the operators whose outputs the code of the others, or of `outputs`, reads."""
    read, live = set(outputs), list[Op]()
    for op in reversed(ops):
        if read.intersection(op.outputs):
            ignored = UNREAD.get(op.op, ())
            read.update(v for i, v in enumerate(op.inputs) if v is not None and i not in ignored)
            live.append(op)
    return live[::-1]
