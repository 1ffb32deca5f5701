"""The command generate."""

from __future__ import annotations

import json

import pytest

WITH = ("net.prototxt", "-l", "layers.py", "--for", "pytorch", "-o", "project")


@pytest.mark.needs("torch", "safetensors")
def test_generate_prints_differences_and_files(anylayer_command, small):
    done = anylayer_command("generate", *WITH, "-i", "x.npy")
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["flat", "means"]
    assert (
        "wrote project (model.py, model.safetensors, test_model.py, test_data.npz); its test passes" in done.stderr
    )
    assert (small / "project" / "model.py").exists()


def test_generate_says_that_the_test_was_not_run(anylayer_command, small):
    done = anylayer_command("generate", *WITH, "--no-test")
    assert "its test was not run: not asked for" in done.stderr and done.stdout == ""


def test_generate_prints_json(anylayer_command, small):
    found = json.loads(anylayer_command("generate", *WITH, "--no-test", "--json").stdout)
    assert found["target"] == "pytorch" and found["tested"] is False and found["not_tested"] == "not asked for"
    assert found["files"][0] == "project/model.py"


def test_generate_replaces_edited_folder_only_by_force(anylayer_command, small):
    anylayer_command("generate", *WITH, "--no-test")
    anylayer_command("generate", *WITH, "--no-test")
    (small / "project" / "model.py").write_text("mine")
    refused = anylayer_command("generate", *WITH, "--no-test", status=1)
    assert "project: model.py was edited since it was generated; give another folder, or --force" in refused.stderr
    anylayer_command("generate", *WITH, "--no-test", "--force")
    assert "class" in (small / "project" / "model.py").read_text()


def test_generate_names_unknown_target_and_option(anylayer_command, small):
    assert "targets: " in anylayer_command("generate", *WITH, "--for", "fortran", status=1).stderr
    stray = anylayer_command("generate", *WITH, "--set", "speed=3", status=1)
    assert "--set speed: a PyTorch module has no such option" in stray.stderr
