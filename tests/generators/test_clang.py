"""The projects in C++, built by Clang without warnings."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from anylayer.generators import opencv
from anylayer.generators._testing import missing_tools
from tests.generators.opencv.test_project import examples

pytestmark = pytest.mark.skipif(not shutil.which("clang++"), reason="clang++ is not installed")


@pytest.mark.one_per()
@pytest.mark.parametrize("target", ["opencv", "onnxruntime", "openvino"])
def test_clang_builds_the_project_without_warnings(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = opencv._missing() if target == "opencv" else ", ".join(missing_tools(target))
    if missing:
        pytest.skip(f"the test needs tools that are not installed: {missing}")
    monkeypatch.setenv("CXX", "clang++")
    monkeypatch.setenv("CXXFLAGS", "-Wall -Wextra -Werror")
    net, given = examples(tmp_path, ["interp", "crop", "yolo"])
    done = net.generate(target, tmp_path / "project", inputs=given)
    assert done.untested == ""
