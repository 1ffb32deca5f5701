"""Random NumPy programs as layers: each is traced, run on the engines and compared with NumPy.

`python -m tests.hostile.programs --count 20000 --seed 0 -e onnxruntime -e openvino` prints the results;
`-e open:onnxruntime` leaves the sizes of inputs open, `-e file:openvino` runs a written file in the plain engine.
A seed determines a program: `--show SEED` prints it, `--count 1 --seed SEED` runs it alone.
"""
