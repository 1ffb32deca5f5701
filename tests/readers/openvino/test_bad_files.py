"""Files that are not an IR, that are damaged, or that are hostile: the error says what is wrong, and where."""

from __future__ import annotations

import contextlib
import re
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import anylayer
from anylayer.errors import AnyLayerError, FileError
from anylayer.readers.openvino import markup, match, read

from .ir import Ir

V11 = """<net name="n" version="11"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data shape="1,3" element_type="f32"/>
 <output><port id="0" precision="FP32" names="x"><dim>1</dim><dim>3</dim></port></output></layer>
<layer id="1" name="c" type="Const" version="opset1"><data element_type="f32" shape="3" offset="0" size="12"/>
 <output><port id="0" precision="FP32"><dim>3</dim></port></output></layer>
<layer id="2" name="y" type="Add" version="opset1"><data auto_broadcast="numpy"/>
 <input><port id="0"/><port id="1"/></input><output><port id="2" names="y"/></output></layer>
<layer id="3" name="r" type="Result" version="opset1"><input><port id="0"/></input></layer></layers>
<edges><edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
<edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>
<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/></edges></net>"""
VALUES = np.arange(3, dtype=np.float32)


def save(folder: Path, text: str = V11, data: bytes | None = None) -> Path:
    path = folder / "net.xml"
    path.write_text(text)
    path.with_suffix(".bin").write_bytes(VALUES.tobytes() if data is None else data)
    return path


def test_unchanged_file_is_read(tmp_path: Path) -> None:
    x = np.ones((1, 3), np.float32)
    got = anylayer.read(save(tmp_path)).compile("numpy")({"x": x})
    assert np.array_equal(got["y"], x + VALUES)


CHANGES = {
    "a document type": (
        ("<net name", '<!DOCTYPE net [<!ENTITY a "b">]><net name'),
        "line 1: the file declares a document type (DTD), which is not supported in an IR",
    ),
    "nested entities": (
        (
            "<net name",
            '<!DOCTYPE n [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">]><net name',
        ),
        "the file declares a document type (DTD)",
    ),
    "an unknown entity": (('name="n"', 'name="&n;"'), "this is not XML: undefined entity"),
    "cut off": (("</edges></net>", ""), "this is not XML: no element found"),
    "mismatched tags": (("</layers>", "</layer>"), "line 8: this is not XML: mismatched tag"),
    "no layers": (("layers", "players"), "the network has no <layers> element"),
    "a version that is not a number": (('version="11"', 'version="new"'), "its version 'new' is not a number"),
    "a future version": (
        ('version="11"', 'version="12"'),
        "its version is 12; versions 2 to 7, 10 and 11",
    ),
    "a version that does not exist": (
        ('version="11"', 'version="8"'),
        "its version is 8; versions 2 to 7, 10 and 11",
    ),
    "a future opset": (
        ('type="Add" version="opset1"', 'type="Add" version="opset99"'),
        "layer 'y' (Add): is of version 'opset99', but only opset1 to opset17 are supported",
    ),
    "an extension": (
        ('type="Add" version="opset1"', 'type="Add" version="extension"'),
        "Define an operation of an extension by a class in a layers file",
    ),
    "a wrong offset": (('offset="0"', 'offset="4"'), "layer 'c' (Const): 12 bytes at offset 4 are needed, but"),
    "a negative offset": (('offset="0"', 'offset="-4"'), "'offset': a size must be an integer, got '-4'"),
    "a wrong size": (('size="12"', 'size="8"'), "3 values of type f32 need 12 bytes, but 'size' is 8"),
    "a wrong shape": (('shape="3"', 'shape="9999999999"'), "9999999999 values of type f32 need 39999999996 bytes"),
    "an unknown element type": (('f32" shape="3"', 'f8" shape="3"'), "values of type 'f8' are not supported"),
    "an unknown attribute": (
        ('auto_broadcast="numpy"', 'auto_brodcast="numpy"'),
        "data has no field 'auto_brodcast'; did you mean 'auto_broadcast'?",
    ),
    "an unknown word": (
        ('auto_broadcast="numpy"', 'auto_broadcast="nimpy"'),
        "parameter 'auto_broadcast': must be one of numpy, none, pdpd, bidirectional, explicit, got nimpy",
    ),
    "a missing edge": (
        ('<edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>', ""),
        "net.xml:6: layer 'y' (Add): no edge leads to its input port 1",
    ),
    "an edge twice": (
        ('to-layer="2" to-port="1"', 'to-layer="2" to-port="0"'),
        "layer 'y' (Add): two edges lead to its input port 0 (line 10)",
    ),
    "an edge to nowhere": (
        ('to-layer="3"', 'to-layer="9"'),
        "line 11: an edge has to-layer=9, but no layer has this id",
    ),
    "an unknown port": (
        ('from-layer="2" from-port="2"', 'from-layer="2" from-port="0"'),
        "it has no output port 0 (line 11); its output ports: 2",
    ),
    "a cycle": (
        ('from-layer="0" from-port="0" to-layer="2"', 'from-layer="2" from-port="2" to-layer="2"'),
        "layers 'y', 'r' depend on each other in a cycle",
    ),
    "one id twice": (('<layer id="1"', '<layer id="0"'), "layer 'c' (Const): another layer has the same id 0"),
    "one port twice": (
        ('<port id="0"/><port id="1"/>', '<port id="0"/><port id="0"/>'),
        "two of its ports have the same id: 0, 0, 2",
    ),
    "no type": ((' type="Add"', ""), "line 6: a layer has no 'type'"),
    "an output layer with two inputs": (
        ('type="Add" version="opset1"><data auto_broadcast="numpy"/>', 'type="Result" version="opset1">'),
        "layer 'y' (Result): an output layer has 2 inputs, expected 1",
    ),
    "an input layer with inputs": (
        ('type="Add"', 'type="Parameter"'),
        "layer 'y' (Parameter): an input layer has 2 inputs, expected none",
    ),
    "no outputs": (('type="Result"', 'type="Exp"'), "the network has no outputs"),
    "a dim that is not a number": (("<dim>1</dim>", "<dim>one</dim>"), "a size must be an integer, got 'one'"),
    "a huge dim": (("<dim>1</dim>", f"<dim>{'9' * 5000}</dim>"), "a size must be an integer, got '9999"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_damaged_file_is_refused(name: str, tmp_path: Path) -> None:
    (old, new), text = CHANGES[name]
    assert old in V11
    path = save(tmp_path, V11.replace(old, new, 1) if old != "layers" else V11.replace(old, new))
    start = time.perf_counter()
    with pytest.raises(AnyLayerError) as caught:
        anylayer.read(path).compile("numpy")({"x": VALUES[None]})
    assert text in str(caught.value)
    assert str(path) in str(caught.value)
    assert str(caught.value).count(str(path)) <= 2
    assert time.perf_counter() - start < 5


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path, "<net>" + "<a>" * 100_000)
    with pytest.raises(FileError, match=r"line 1: elements are nested deeper than 64"):
        read(path)


def test_too_many_elements_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert markup._LIMITS.elements == 2_000_000
    monkeypatch.setattr(markup, "_LIMITS", replace(markup._LIMITS, elements=2000))
    path = save(tmp_path, '<net version="11">' + "<a/>" * 2001)
    with pytest.raises(FileError, match=r"the file has more than 2000 elements"):
        read(path)


def test_missing_weights_file_is_named(tmp_path: Path) -> None:
    path = save(tmp_path)
    path.with_suffix(".bin").unlink()
    with pytest.raises(FileError, match=r"its weights file .*net\.bin is missing"):
        read(path)
    other = tmp_path / "other.bin"
    other.write_bytes(VALUES.tobytes())
    assert read(path, other).weights == str(other)
    with pytest.raises(FileError, match=r"there is no weights file .*none\.bin"):
        read(path, tmp_path / "none.bin")


def test_only_an_ir_matches(tmp_path: Path) -> None:
    for text in ("<opencv_storage/>", "not xml", "", '{"net": 1}', "<html><net/></html>"):
        path = save(tmp_path, text)
        assert not match(path)
    assert not match(tmp_path)
    assert match(save(tmp_path))
    assert match(save(tmp_path, '<?xml version="1.0" encoding="UTF-8"?>\n<!-- written by hand -->\n' + V11))


def test_unknown_operations_are_all_named(tmp_path: Path) -> None:
    path = save(tmp_path, V11.replace('type="Add"', 'type="TensorIterator"'))
    net = anylayer.read(path)
    assert [node.type for node in net.unknown] == ["TensorIterator"]
    with pytest.raises(AnyLayerError, match=re.escape("1 unknown layer type: 'TensorIterator' (layer 'y')")):
        net.compile("numpy")


class Mine:
    """Adds a scaled blob to its input."""

    def __init__(self, params, blobs):
        self.blob, self.scale = blobs[0], params["scale"]

    def forward(self, inputs):
        return [inputs[0] + self.blob * np.float32(self.scale)]


def test_a_users_operation_gets_attributes_and_constants(tmp_path: Path) -> None:
    text = V11.replace(
        'type="Add" version="opset1"><data auto_broadcast="numpy"/>',
        'type="Mine" version="extension"><data scale="2"/>',
    )
    net = anylayer.read(save(tmp_path, text), layers=[("Mine", Mine)])
    got = net.compile("onnxruntime")({"x": np.ones((1, 3), np.float32)})
    assert np.array_equal(got["y"], [[1, 3, 5]])


def test_truncated_weights_of_a_legacy_ir(tmp_path: Path) -> None:
    ir = Ir(2)
    ir.input("x", 1, 3, 4, 4)
    ir.layer("y", "PReLU", ["x"], [(1, 3, 4, 4)], {}, {"weights": VALUES})
    path = ir.save(tmp_path)
    path.with_suffix(".bin").write_bytes(b"\0" * 8)
    with pytest.raises(
        FileError, match=r"layer 'y' \(PReLU\): 12 bytes at offset 0 are needed, but .* has 8 bytes"
    ):
        read(path)


def test_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    path = save(tmp_path / "model")
    beside = path.with_suffix(".bin")
    beside.write_bytes(b"")
    beside.rename(tmp_path / "outside")
    beside.symlink_to(tmp_path / "outside")
    with pytest.raises(FileError) as caught:
        anylayer.read(path)
    assert str(caught.value) == (
        f"{path}: its weights file net.bin is a link that leads out of the model's folder. If it is the right "
        f"file, name it: anylayer.read('{path}', '{beside}')"
    )
    with contextlib.suppress(AnyLayerError):  # the file may lack bytes, but it is read
        anylayer.read(path, beside)
