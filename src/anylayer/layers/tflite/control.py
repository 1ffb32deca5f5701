"""Operators that run subgraphs."""

from __future__ import annotations

from anylayer.layer import Array, attribute, layer
from anylayer.layer.arguments import reshape
from anylayer.layers._control import Control
from anylayer.layers._functions import FunctionIf, FunctionWhile
from anylayer.layers.tflite._base import TFLiteLayer
from anylayer.network import Subgraph


class _Control(TFLiteLayer):
    family = "tflite"


@layer("IF")
class If(FunctionIf, _Control):
    """Run one of two subgraphs, which the condition selects.

    Inputs: a condition of one element, and the arguments of both subgraphs. If it depends on the network's inputs,
    both run and the outputs are selected, which requires equal shapes.
    Source: tensorflow/lite/kernels/if.cc.
    """

    def forward(self, condition: Array, *arguments: Array) -> list[Array]:
        return super().forward(reshape(condition, [], "the condition"), *arguments)


@layer("WHILE")
class While(FunctionWhile, _Control):
    """Run the subgraph `body` on its own results while `cond` is true of them.

    Inputs and outputs: the values of the loop, before and after it. `cond` returns one element.
    Source: tensorflow/lite/kernels/while.cc.
    """


@layer("STABLEHLO_COMPOSITE")
class Composite(Control, _Control):
    """Run the subgraph `body`, which computes an operator of another framework by operators of TFLite.

    Source: tensorflow/lite/kernels/stablehlo_composite.cc.
    """

    body: Subgraph = attribute("any")

    def forward(self, *arguments: Array) -> list[Array]:
        return self.inside(self.body, arguments, arguments)
