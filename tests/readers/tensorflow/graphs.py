"""Write small GraphDefs in protobuf's text format."""

from __future__ import annotations

from collections.abc import Sequence


def placeholder(name: str, shape: Sequence[int]) -> str:
    dims = " ".join(f"dim {{ size: {d} }}" for d in shape)
    return (
        f'node {{ name: "{name}" op: "Placeholder" attr {{ key: "dtype" value {{ type: DT_FLOAT }} }} '
        f'attr {{ key: "shape" value {{ shape {{ {dims} }} }} }} }}\n'
    )


def operation(name: str, op: str, inputs: Sequence[str], **strings: str) -> str:
    attrs = "".join(f' attr {{ key: "{key}" value {{ s: "{value}" }} }}' for key, value in strings.items())
    named = " ".join(f'input: "{i}"' for i in inputs)
    kind = ' attr { key: "T" value { type: DT_FLOAT } }'
    return f'node {{ name: "{name}" op: "{op}" {named}{kind}{attrs} }}\n'


def vector(name: str, values: Sequence[int]) -> str:
    """Return a constant with dtype int32 and one axis."""
    numbers = " ".join(f"int_val: {v}" for v in values)
    shape = f"tensor_shape {{ dim {{ size: {len(values)} }} }}"
    return (
        f'node {{ name: "{name}" op: "Const" attr {{ key: "dtype" value {{ type: DT_INT32 }} }} '
        f'attr {{ key: "value" value {{ tensor {{ dtype: DT_INT32 {shape} {numbers} }} }} }} }}\n'
    )


def transpose(name: str, source: str, order: Sequence[int]) -> str:
    """Return a Transpose and its constant permutation."""
    tperm = ' attr { key: "Tperm" value { type: DT_INT32 } }'
    line = operation(name, "Transpose", [source, f"{name}/perm"])
    return vector(f"{name}/perm", order) + line.replace(" }\n", f"{tperm} }}\n")
