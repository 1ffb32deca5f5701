"""How the user's code uses its local lists: the instructions that read them, and which of them run.

Where two iterations of a loop begin with equal states, they run the same instructions. A use of a list that does
not run in them never runs, such as that of `if 0 < limit == len(keep)` with a limit of -1.
"""

from __future__ import annotations

import dis
import sys
from functools import cache
from itertools import pairwise
from types import CodeType, FrameType
from typing import Any


def _reads(i: dis.Instruction, name: str) -> bool:
    """Return whether an instruction reads a local variable. Some read two."""
    return "LOAD" in i.opname and (i.argval == name or (type(i.argval) is tuple and name in i.argval))


class Watch:
    """The instructions of a frame that run from now on. Nothing is watched while a debugger runs."""

    def __init__(self, frame: FrameType) -> None:
        self.frame = frame
        self.offsets: set[int] = set()
        self.before = sys.gettrace()
        if self.before in (None, _ignore):
            sys.settrace(_ignore)
            frame.f_trace_opcodes, frame.f_trace = True, self._event

    def _event(self, frame: FrameType, event: str, argument: object) -> Any:
        self.offsets.add(frame.f_lasti)
        return self._event

    def stop(self) -> None:
        """End the watch."""
        if self.before in (None, _ignore):
            sys.settrace(self.before)
            self.frame.f_trace, self.frame.f_trace_opcodes = None, False


def _ignore(frame: FrameType, event: str, argument: object) -> None:
    return None


def is_only_appended_to(code: CodeType, loop: tuple[int, int], name: str, watch: Watch | None) -> bool:
    """Return whether a loop, given by its first and last position, uses a local list only as `name.append(...)`.

    watch: what has run since the loop began, for two iterations at least.
    """
    uses = _uses(code, loop, name)
    if uses is None:
        return False
    appends, others = uses
    if watch is not None and not watch.offsets.isdisjoint(appends):
        others &= watch.offsets
    return name not in code.co_freevars and not others


@cache
def _uses(code: CodeType, loop: tuple[int, int], name: str) -> tuple[frozenset[int], frozenset[int]] | None:
    """Return where a loop appends to a local list, and where it uses it in another way. Return None if another
    function may use it.
    """
    first, last = loop
    appends: set[int] = set()
    others: set[int] = set()
    for use, following in pairwise(dis.get_instructions(code)):
        if not _reads(use, name):
            continue
        makes_closure = use.opname == "LOAD_CLOSURE" or (name in code.co_cellvars and "FAST" in use.opname)
        if makes_closure and use.offset <= last:
            return None
        if first <= use.offset <= last:
            is_append = following.opname in ("LOAD_METHOD", "LOAD_ATTR") and following.argval == "append"
            is_append = is_append and (use.argval == name or use.argval[-1] == name)
            (appends if is_append else others).add(use.offset)
    return frozenset(appends), frozenset(others)
