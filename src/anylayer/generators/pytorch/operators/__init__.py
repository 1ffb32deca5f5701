"""The torch code of each ONNX operator, one theme per file. Each file registers its functions in HANDLERS."""

from __future__ import annotations

from collections.abc import Callable

from anylayer.folders import Table
from anylayer.generators.pytorch.code import Code
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
