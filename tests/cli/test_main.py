"""The command line: help, errors, exit statuses, loaded packages, parsing of options."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from anylayer import AnyLayerError, __version__, cli
from anylayer.cli.command import Command, TakesInputs, to_numbers, to_shapes, to_size
from anylayer.errors import plural
from anylayer.inspect.tables import count, duration

_RUN = "from anylayer.cli import main; main(prog_name='anylayer')"
COMMANDS = [
    *("bench", "build", "cache", "convert", "diff", "generate", "identify", "inspect", "layers", "profile"),
    *("report", "run", "sdk", "serve", "stub", "verify", "view", "weights"),
]


def test_help_lists_the_commands(anylayer_command):
    shown = anylayer_command("--help").stdout
    assert [line.split()[0] for line in shown.split("Commands:\n")[1].splitlines()[: len(COMMANDS)]] == COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each_command_has_example(anylayer_command, name):
    examples = anylayer_command(name, "--help").stdout.replace("Examples:", "Example:").split("Example:\n")[1]
    assert f"anylayer {name} " in examples


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_two_screens_and_begins_with_usual_options(name):
    # click leaves two columns of a terminal of 80 empty
    shown = CliRunner().invoke(cli.main, [name, "--help"], terminal_width=78).output.splitlines()
    assert max(map(len, shown)) <= 80 and len(shown) <= 60
    section = shown[shown.index("Options:") :]
    section = section[: section.index("")]
    options = [line.split()[0].rstrip(",") for line in section if line.startswith("  -")]
    usual = [option for option in ("-i", "-o", "-l", "-e") if option in options]
    assert options[: len(usual)] == usual and options[-3:] == ["-q", "--debug", "-h"]


@pytest.mark.parametrize("width", range(60, 121, 3))
def test_help_keeps_names_of_options_on_one_line(width):
    shown = CliRunner().invoke(cli.main, ["run", "--help"], terminal_width=width).output
    assert {"--no-user-kernels", "--isolate-limit", "--kernel-folder"} <= set(shown.replace(",", "").split())


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0000123, "0.0123 ms"), (0.405, "405 ms"), (0.9997, "1 s"), (1.63, "1.63 s"), (1630, "1630 s")],
)
def test_duration_has_three_digits_and_its_unit(seconds, text):
    assert duration(seconds) == text


def test_version_option_prints_the_version(anylayer_command):
    assert anylayer_command("--version").stdout == f"anylayer {__version__}\n"


def test_unknown_command_suggests_nearest(anylayer_command, small):
    assert "there is no command 'insepct'; did you mean 'inspect'?" in anylayer_command("insepct", status=2).stderr
    shown = anylayer_command("net.prototxt", status=2).stderr
    assert "there is no command 'net.prototxt'; to run a model: anylayer run net.prototxt" in shown


def test_help_loads_no_heavy_package():
    code = (
        "import sys\nfrom click.testing import CliRunner\nfrom anylayer.cli import main\n"
        "for words in (['--help'], ['run', '--help'], ['bench', '--help']):\n"
        "    done = CliRunner().invoke(main, words)\n"
        "    assert done.exit_code == 0, done.output\n"
        "heavy = ['PIL', 'rich', 'onnx', 'onnxruntime', 'openvino', 'pyfive', 'anylayer.runtime.model']\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_error_is_one_line_on_stderr_with_status_1(anylayer_command, tmp_path):
    result = anylayer_command("inspect", tmp_path / "gone.prototxt", status=1)
    assert result.stdout == ""
    assert result.stderr == f"{tmp_path}/gone.prototxt: there is no such file\n"


def test_debug_raises_exception(anylayer_command, tmp_path):
    result = anylayer_command("inspect", tmp_path / "gone.prototxt", "--debug", status=1)
    assert isinstance(result.exception, AnyLayerError)


def _failing(error):
    @click.command(cls=Command)
    @click.option("--debug", is_flag=True)
    def command():
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (AnyLayerError("the rule", "file", "layer"), 1, "file: layer: the rule"),
        (PermissionError(13, "Permission denied", "x.png"), 1, "x.png: Permission denied"),
        (MemoryError(), 1, "out of memory"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (
            ZeroDivisionError("by zero"),
            1,
            "this is a bug in anylayer (--debug shows the traceback): ZeroDivisionError: by zero",
        ),
    ],
)
def test_error_message_and_status(error, status, text):
    from click.testing import CliRunner

    result = CliRunner().invoke(_failing(error), [])
    assert (result.exit_code, result.stderr) == (status, text + "\n")


def test_interrupt_ends_with_status_130(small):
    code = (
        "import sys, anylayer.cli.command as c\n"
        "def stop(*a, **k): raise KeyboardInterrupt\n"
        "c.read_net = stop\n"
        "from anylayer.cli.commands import inspect\n"
        "inspect.read_net = stop\n"
        "from anylayer.cli import main\nmain(['inspect', 'net.prototxt'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_termination_deletes_temporary_folder(small, name):
    (small / "slow.py").write_text(
        "import os, signal, time\n"
        "class Slow:\n"
        "    def __init__(self, params, blobs): pass\n"
        "    def forward(self, inputs):\n"
        "        if any(n.startswith('.out.onnx') for n in os.listdir('.')):\n"
        f"            os.kill(os.getpid(), signal.{name})\n"
        "            time.sleep(60)\n"
        "        return [inputs[0] * 1]\n"
    )
    words = ["convert", "net.prototxt", "-o", "out.onnx", "-l", "layers.py", "-l", "Times=slow.py:Slow"]
    before = sorted(small.iterdir())
    done = subprocess.run([sys.executable, "-c", _RUN, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (128 + getattr(signal, name), "")
    assert [p for p in sorted(small.iterdir()) if p.name != "__pycache__"] == before


def test_layer_that_exits_is_an_error(small):
    (small / "exits.py").write_text(
        "import sys\n"
        "class Exits:\n"
        "    def __init__(self, params, blobs): pass\n"
        "    def forward(self, inputs): sys.exit(0)\n"
    )
    words = ["run", "net.prototxt", "-l", "layers.py", "-l", "Times=exits.py:Exits", "-i", "x.npy"]
    done = subprocess.run([sys.executable, "-c", _RUN, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "layer 'half' (Times): forward ends the program (SystemExit: 0) (exits.py:4)" in done.stderr


def test_command_runs_in_own_process():
    done = subprocess.run(
        [sys.executable, "-c", _RUN, "layers", "ShuffleChannel", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    (found,) = json.loads(done.stdout)
    assert found["message"] == "shuffle_channel_param"


def _spread(*words):
    @click.command(cls=TakesInputs)
    @click.argument("model")
    @click.argument("weights", required=False)
    @click.option("-i", "--input", "inputs", multiple=True)
    @click.option("--size")
    @click.option("--json", "as_json", is_flag=True)
    def command(**given):
        click.echo(json.dumps(given))

    from click.testing import CliRunner

    return json.loads(CliRunner().invoke(command, words).stdout)


def test_input_accepts_all_words_up_to_next_option():
    given = _spread("m", "w", "-i", "a", "b", "--size", "3", "--input", "c")
    assert (given["model"], given["weights"], given["inputs"], given["size"]) == ("m", "w", ["a", "b", "c"], "3")


def test_input_before_model_accepts_one_word():
    given = _spread("--size", "3", "-i", "a", "m", "w")
    assert (given["model"], given["weights"], given["inputs"]) == ("m", "w", ["a"])


def test_words_after_flag_are_arguments():
    given = _spread("m", "-i", "a", "--json", "w")
    assert (given["weights"], given["inputs"], given["as_json"]) == ("w", ["a"], True)


@pytest.mark.parametrize(
    ("text", "size"), [("300", (300, 300)), ("500x375", (375, 500)), ("500,375", (375, 500)), ("keep", "keep")]
)
def test_size_option(text, size):
    assert to_size(None, None, text) == size


@pytest.mark.parametrize("text", ["", "0", "3x", "ax3", "3x0", "1x2x3", "-3", "999999"])
def test_malformed_size_is_refused(text):
    with pytest.raises(click.BadParameter, match="a size is WIDTHxHEIGHT, one number, or keep, got"):
        to_size(None, None, text)


def test_number_option_accepts_fractions():
    assert to_numbers(None, None, "1/256") == 1 / 256
    assert to_numbers(None, None, "-0.5") == -0.5
    assert to_numbers(None, None, "1/2,3,0.5") == (0.5, 3, 0.5)
    for text in ("x", "1/0", "1/2/3"):
        with pytest.raises(click.BadParameter, match="expected a number or a fraction, got"):
            to_numbers(None, None, text)


def test_shape_option():
    assert to_shapes(None, None, ["data=1,3,224,224", "2x3"]) == [("data", (1, 3, 224, 224)), ("", (2, 3))]
    for text in ("data=", "data=1,,2", "data=1.5,3", "data=-1"):
        with pytest.raises(click.BadParameter, match="a shape is INPUT=N,C,H,W with integers of at least 0, got"):
            to_shapes(None, None, [text])


def test_formatting_of_counts_and_plurals():
    assert [count(n) for n in (0, 999, 1000, 1234567, 15_300_000_000)] == ["0", "999", "1 k", "1.23 M", "15.3 G"]
    assert [plural(n, "node") for n in (0, 1, 2)] == ["0 nodes", "1 node", "2 nodes"]


def test_python_m_anylayer_is_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "anylayer", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"anylayer {__version__}\n"
    done = subprocess.run([sys.executable, "-m", "anylayer", "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: anylayer [OPTIONS] COMMAND")


@pytest.mark.parametrize(
    "words, found",
    [
        ("run net.prototxt -e o", ["onnxruntime", "openvino"]),
        ("convert net.prototxt --to o", ["onnx", "openvino"]),
        ("generate net.prototxt --for opencv-", ["opencv-python"]),
        ("run net.prototxt --dialect ss", ["ssd"]),
        ("layers --format caffe detectionOut", ["DetectionOutput"]),
    ],
)
def test_shell_completes_engines_formats_and_targets(words: str, found: list[str]) -> None:
    words = f"anylayer {words}"
    env = {**os.environ, "COMP_WORDS": words, "COMP_CWORD": "4", "_ANYLAYER_COMPLETE": "bash_complete"}
    done = subprocess.run([sys.executable, "-c", _RUN], capture_output=True, text=True, env=env)
    assert done.stdout.split() == [f"plain,{name}" for name in found]


def test_interrupt_during_an_import_is_an_interrupt(monkeypatch):
    """A module in C++ raises ImportError in place of an interrupt, and a caller may raise a further exception."""

    @click.command(cls=Command)
    def command():
        try:
            raise ImportError("initialization failed") from KeyboardInterrupt()
        except ImportError:
            raise AnyLayerError("the engine is not installed") from None

    result = CliRunner().invoke(command, [])
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")

    def interrupted(*words):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "load", interrupted)
    result = CliRunner().invoke(cli.main, ["inspect", "net.prototxt"])
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")
