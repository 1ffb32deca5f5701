"""The torch code of each ONNX operator, one theme per file. Each file registers its functions in HANDLERS."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np

from anylayer.folders import Table
from anylayer.generators.pytorch.code import Code, first, in_tuple, number
from anylayer.graph import Op

Handler = Callable[[Code, Op], "str | list[str]"]
"""A function that returns the expression of an operator's output, or one expression per output. It may append
statements before. It raises NotInTarget for what torch cannot express."""

HANDLERS: Table[str, Handler] = Table()
"""The function of each operator."""

UNREAD: Table[str, tuple[int, ...]] = Table()
"""The inputs that the code of an operator does not read, because the shape of the output determines them."""


def writes(*ops: str, unread: tuple[int, ...] = ()) -> Callable[[Handler], Handler]:
    """Register the decorated function for these operators. `unread` are the indices of inputs that its code does
    not read.
    """

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
