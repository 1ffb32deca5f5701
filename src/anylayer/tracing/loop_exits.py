"""Where a loop in the user's code leads when it ends: the instructions after a question that ends it."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from functools import cache
from types import CodeType

_WITHOUT_EFFECT = ("CACHE", "EXTENDED_ARG", "NOP", "NOT_TAKEN", "TO_BOOL")
_MAX_STEPS = 1000


@cache
def _instructions(code: CodeType) -> tuple[list[dis.Instruction], dict[int, int]]:
    instructions = list(dis.get_instructions(code))
    return instructions, {i.offset: k for k, i in enumerate(instructions)}


def _after(code: CodeType, offset: int, answer: bool) -> Iterator[tuple[int, str, object]]:
    """Yield the instructions (offset, name, argument) that run if the question at `offset` has an answer, up to
    the next branch. Yield none where no branch follows the question.
    """
    instructions, at = _instructions(code)
    k = at[offset]
    while "POP_JUMP" not in instructions[k].opname:
        k += 1
        if instructions[k].opname not in _WITHOUT_EFFECT and "POP_JUMP" not in instructions[k].opname:
            return
    jump = instructions[k]
    if not jump.opname.endswith(("IF_TRUE", "IF_FALSE")):
        return
    k = at[jump.argval] if jump.opname.endswith("TRUE") == answer else k + 1
    for _ in range(_MAX_STEPS):
        i = instructions[k]
        if i.opname.startswith(("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_ABSOLUTE")):
            k = at[i.argval]
            continue
        if i.opname not in _WITHOUT_EFFECT:
            yield i.offset, i.opname, i.argval
            if i.opname.startswith(("RETURN", "RAISE", "RERAISE")) or "JUMP" in i.opname or i.opname == "FOR_ITER":
                return
        k += 1


def lead_to_the_same(code: CodeType, first: tuple[int, bool], second: tuple[int, bool]) -> bool:
    """Return whether two questions, each an offset and an answer, are followed by the same instructions. A
    compiler may repeat short ones, such as those of a `return`.
    """
    for (a, name, argument), (b, *other) in zip(_after(code, *first), _after(code, *second)):
        if a == b or ([name, argument] == other and name.startswith("RETURN")):
            return True
        if [name, argument] != other:
            return False
    return False
