"""Loops: a layer as the source code of one function, without any library.

    from anylayer.loops import lower, opened, prelude, to_cpp

    traced = opened(node.bound)  # source.TracedNode.bound: the layer, traced again with open sizes
    code = to_cpp(lower(traced), "interp", describe)
    text = prelude(code.text) + code.text

`opened` traces a layer with as many open sizes as its code allows; `at_fixed_sizes` traces it at one choice of
sizes. `lower` returns the loops as plain data. It accepts any other graph, too (anylayer.tracing.trace). `to_cpp`
prints them as a C++11 function, a `CppFunction`, which lists its parameters:

    bool interp(const float* input0, float* output0, int64_t N, int64_t C, int64_t H, int64_t W, const Parallel&)

* Pointers to the inputs and outputs, arrays in C order, with the dtypes of `code.inputs` and `code.outputs`.
* Pointers to constants of more than 1024 elements (`code.tables`; `table_text` prints one as C++).
* The open sizes, `code.sizes`. `traced.sizes` says which axis of which input each of them comes from. The caller
  compares every size of every input with `code.size(expression)` for the expressions of `code.inputs[i].shape`,
  checks `code.conditions`, and allocates the outputs by `code.outputs[i].shape`.
* An object that runs parallel loops: `Sequential()`, or the caller's own with the same call operator.

The function returns false where an index that is read from data lies outside its axis. An operator without loops
is refused by name, with its source line.
"""

from anylayer.loops import repeats  # noqa: F401 (it registers its operator)
from anylayer.loops.cpp import TYPES, CppFunction, arguments_text, number, prelude, table_text, to_cpp
from anylayer.loops.lower import lower
from anylayer.loops.opened import Opened, at_fixed_sizes, opened

__all__ = [
    "TYPES", "CppFunction", "Opened", "arguments_text", "at_fixed_sizes", "lower", "number", "opened",
    "prelude", "table_text", "to_cpp",
]  # fmt: skip
