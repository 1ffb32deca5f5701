"""Check the table "Adding" of docs/architecture.md: one new file is enough, and for an operator one line more."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "anylayer"

NET = """
name: "tiny" input: "x" input_shape { dim: 1 dim: 2 }
layer { name: "twice" type: "Twice" bottom: "x" top: "y" }
"""

LAYER = '''
import numpy as np
from anylayer.layer import Layer, layer

@layer("Twice")
class Twice(Layer):
    """Twice its input."""

    def forward(self, x):
        return x + x
'''

LINES = {
    "ops/__init__.py": "from anylayer.ops.mine import mine as mine\n",
    "optimize/order.py": 'FILES += (("optimize.rewrites.mine", ""), ("corrections.mine", ""))\n',
}
"""The lines that a list needs besides the new file."""

ADDED = {
    "layers/caffe/twice.py": LAYER,
    "engines/mine.py": """
PRECISIONS, GENERAL = ("float32",), True

def suits(graphs):
    return False

def compile(graph, threads=None, precision="float32"):
    print("engine: ", *[o.op for o in graph.ops])
    return lambda inputs, out=None: [2 * inputs[0]]
""",
    "corrections/mine.py": """
from anylayer.optimize.rules import rule

@rule("Add", kind="must", targets=["mine"])
def never(new, o):
    print("correction:", o.op)
    return None
""",
    "optimize/rewrites/mine.py": """
from anylayer.optimize.rules import rule

@rule("Add", targets=["mine"])
def doubled(new, o):
    print("rewrite:", o.op)
    return None
""",
    "tracing/rules/mine.py": """
import numpy as np
from anylayer.tracing.dispatch import implements
from anylayer.tracing.primitives import unary

@implements(np.i0)
def i0(x):
    print("tracing rule: i0")
    return x
""",
    "writers/mine.py": """
from anylayer.source import Written
WHAT, SUFFIXES, OPTIONS, RUNS = "a list of operators (.mine)", (".mine",), frozenset(), "numpy"

def write(source, path):
    path.write_text("mine: " + " ".join(o.op for o in source.graph.ops))
    return Written([path])
""",
    "generators/mine.py": """
import sys
from anylayer.generators import Project
WHAT, OPTIONS = "a list of operators", frozenset()

def generate(source, expected):
    text = "print('generator:', '" + " ".join(o.op for o in source.graph.ops) + "')"
    return Project({"test.py": text}, [[sys.executable, "test.py"]])
""",
    "readers/mine.py": f"""
WHAT, OPTIONS = "a list of operators (.mine)", frozenset()

def match(path):
    return path.suffix == ".mine"

def read(path, weights=None, *, user_types=(), **options):
    from anylayer.readers.caffe import read
    copy = path.with_suffix(".prototxt")
    copy.write_text({NET!r})
    return read(copy, None, user_types=user_types)
""",
    "ops/mine.py": """
from anylayer.ops._operator import operator
from anylayer.tracing import record

@operator
def mine(x):
    return -x

@mine.form
def _(x):
    return record("Neg", [x], x.shape, x.dtype)
""",
    "cli/commands/mine.py": '"""Say something."""'
    """
import click

@click.command()
def command():
    click.echo("command: mine")
""",
}

FORMAT = {
    "readers/toy.py": """
import json
import numpy as np
from anylayer.network import Network, Node, TensorType

WHAT, OPTIONS = "a list of operators with options (.toy)", frozenset()

def match(path):
    return path.suffix == ".toy"

def read(path, weights=None, *, user_types=(), **options):
    file = json.loads(path.read_text())
    nodes = [
        Node(output, kind, inputs, [output], {"options": options}, place=f"{path.name}: '{output}' ({kind})")
        for kind, output, inputs, options in file["operators"]
    ]
    constants = [
        Node(name, "CONSTANT", [], [name], blobs=[np.array(values, np.int64)])
        for name, values in file["constants"].items()
    ]
    inputs = {name: TensorType(tuple(shape), np.dtype(np.float32)) for name, shape in file["inputs"].items()}
    outputs = {name: name for name in file["outputs"]}
    return Network(path.stem, "toy", inputs, [*constants, *nodes], outputs, source=path)
""",
    "layers/toy/__init__.py": "",
    "layers/toy/operators.py": """
import numpy as np
from anylayer import ops
from anylayer.layer import Layer, layer
from anylayer.layer.arguments import integers, reshape
from anylayer.layer.fields import attribute
from anylayer.layers._table import computes, operators, row

class ToyLayer(Layer):
    message = "options"

@layer("CONSTANT")
class Constant(ToyLayer):
    def forward(self):
        return self.blob(0, self._blobs[0].shape)

operators(ToyLayer, "Source: {} of the schema.", {
    "ADD": computes("a + b", np.add),
    "LEAKY_RELU": row("Scale what is below 0.", ops.leaky_relu, alpha=attribute("float")),
    "RESHAPE": row("Reshape an array.", lambda x, shape: reshape(x, shape, "shape"), shape=integers),
})
""",
}
"""A format whose three operators are rows of a table."""

TOY = {
    "inputs": {"x": [1, 4]},
    "constants": {"shape": [2, -1]},
    "operators": [
        ["ADD", "sum", ["x", "x"], {}],
        ["LEAKY_RELU", "slope", ["sum"], {"alpha": 0.5}],
        ["RESHAPE", "y", ["slope", "shape"], {}],
    ],
    "outputs": ["y"],
}

USE_FORMAT = """
import json
import numpy as np
import anylayer

file = json.load(open("net.toy"))
net = anylayer.read("net.toy")
x = np.array([[1, -2, 3, -4]], np.float32)
for engine in ("numpy", "onnxruntime"):
    print(f"{engine}:", net.compile(engine=engine)(x)["y"].tolist())
net.write("net.onnx")
file["constants"]["shape"] = [3, -1]
json.dump(file, open("other.toy", "w"))
try:
    anylayer.read("other.toy").compile(engine="numpy")(x)
except anylayer.AnyLayerError as error:
    print("refused:", error)
"""

USE = """
import sys
import numpy as np
import anylayer
from anylayer.corrections import corrected
from anylayer.network import TensorType
from anylayer.optimize.simplify import simplify
from anylayer.tracing import trace

net = anylayer.read("net.prototxt")
x = np.array([[1, 3]], np.float32)
print("layer:", net.compile(engine="numpy")(x)["y"].tolist())
print("run:", net.compile(engine="mine")(x)["y"].tolist())
graph = trace(lambda xs: [np.i0(xs[0]) + xs[0]], [TensorType((2,), np.dtype("float32"))])
operator = trace(lambda xs: [anylayer.ops.mine(xs[0])], [TensorType((2,), np.dtype("float32"))])
print("operator:", *[o.op for o in operator.ops], anylayer.ops.mine(x).tolist())
simplify(graph, "mine")
corrected(graph, "mine")
net.write("net.mine")
print(*net.generate("mine", "project").report)
print(open("net.mine").read())
"""


def run_in_copy(folder: Path, files: dict[str, str], lines: dict[str, str]) -> Callable[..., str]:
    """Return a function that runs Python in a folder. The folder has a copy of the package with more files."""
    shutil.copytree(SRC, folder / "anylayer", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in files.items():
        (folder / "anylayer" / name).parent.mkdir(exist_ok=True)
        (folder / "anylayer" / name).write_text(text)
    for name, line in lines.items():
        with (folder / "anylayer" / name).open("a") as file:
            file.write(line)
    env = {**os.environ, "PYTHONPATH": str(folder)}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=folder, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the output of a program that uses one new part of each kind, each added to a copy of the package as
    one file.
    """
    folder = tmp_path_factory.mktemp("adding")
    run = run_in_copy(folder, ADDED, LINES)
    (folder / "net.prototxt").write_text(NET)
    command = "from anylayer.cli import main; main()"
    return run("-c", USE) + run("-c", command, "mine") + run("-c", command, "--help")


@pytest.mark.parametrize(
    "line",
    [
        "layer: [[2.0, 6.0]]",
        "engine:  Add",
        "run: [[2.0, 6.0]]",
        "correction: Add",
        "rewrite: Add",
        "tracing rule: i0",
        "operator: Neg [[-1.0, -3.0]]",
        "mine: Add",
        "generator: Add",
        "command: mine",
        "  mine      Say something.",
    ],
)
def test_one_new_file_is_enough(output: str, line: str) -> None:
    assert line in output.splitlines()


def test_format_of_three_operators_is_a_reader_and_a_table(tmp_path: Path) -> None:
    assert sum(len(text.strip().splitlines()) for text in FORMAT.values()) < 60
    (tmp_path / "net.toy").write_text(json.dumps(TOY))
    lines = run_in_copy(tmp_path, FORMAT, {})("-c", USE_FORMAT).splitlines()
    assert lines[:2] == [f"{engine}: [[2.0, -2.0], [6.0, -4.0]]" for engine in ("numpy", "onnxruntime")]
    assert lines[2:] == ["refused: other.toy: 'y' (RESHAPE): shape [3, -1] does not fit an array of shape (1, 4)"]
