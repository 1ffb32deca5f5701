"""Networks and configurations of OpenCL kernels for the tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

COPY = """__kernel void run(const __global INPUT0_TYPE* x, __global OUTPUT0_TYPE* y) {
    const int i = get_global_id(0);
    y[i] = x[i];
}
"""
"""A kernel that copies its input."""
IN, OUT = (f'<Tensor arg-index="{i}" type="{kind}" port-index="0"/>' for i, kind in enumerate(("input", "output")))


def configuration(
    folder: Path,
    type_: str,
    source: str = COPY,
    *,
    defines: str = "",
    buffers: str = IN + OUT,
    rest: str = "",
    name: str = "kernels.xml",
    entry: str = "run",
) -> Path:
    """Write a configuration with one layer type, and its source beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{type_}.cl").write_text(source)
    path = folder / name
    path.write_text(
        f'<CustomLayer name="{type_}" type="SimpleGPU" version="1">\n'
        f'<Kernel entry="{entry}"><Source filename="{type_}.cl"/>\n{defines}</Kernel>\n'
        f"<Buffers>\n{buffers}\n</Buffers>\n{rest}\n</CustomLayer>\n"
    )
    return path


def port(index: int, shape: Sequence[int], precision: str = "") -> str:
    kind = f' precision="{precision}"' if precision else ""
    return f'<port id="{index}"{kind}>{"".join(f"<dim>{d}</dim>" for d in shape)}</port>'


def ir_2018(
    folder: Path,
    type_: str,
    shape: Sequence[int] = (1, 3, 4, 5),
    data: str = "",
    *,
    names: Sequence[str] = ("it",),
    out: Sequence[int] | None = None,
    extra: str = "",
) -> Path:
    """Write an IR of version 2: an input and a chain of layers of one type. `data` are their attributes."""
    layers, edges = [f'<layer name="data" type="Input" id="0"><output>{port(0, shape)}</output></layer>'], []
    for i, name in enumerate(names, 1):
        sides = f"<input>{port(0, shape)}</input><output>{port(1, out or shape)}</output>"
        attributes = f"<data {data}/>" if data else ""
        layers.append(f'<layer name="{name}" type="{type_}" id="{i}">{attributes}{sides}{extra}</layer>')
        edges.append(f'<edge from-layer="{i - 1}" from-port="{int(i > 1)}" to-layer="{i}" to-port="0"/>')
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "net.xml"
    path.write_text(
        f'<net name="n" version="2" batch="1" precision="FP32"><layers>{"".join(layers)}</layers>'
        f"<edges>{''.join(edges)}</edges></net>"
    )
    return path
