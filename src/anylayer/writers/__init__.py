"""Writers: one target, one file or folder. `Net.write` and `anylayer convert` find them by listing this folder.

A writer of files is a module `anylayer.writers.<format>` with

    WHAT      what it writes, in words with article: "an ONNX model (.onnx)"
    SUFFIXES  the suffixes that mean this format, the usual one first: (".onnx",)
    OPTIONS   frozenset of the options that `write` takes: of the common ones "functions", "keep", "batch" and
              "dialect", and its own. Net.write refuses every other one by name
    RUNS      what runs a file of it, to compare it with the source: an engine whose module has `open_file`
              ("onnxruntime", "openvino"), or "numpy": it is read by anylayer.read and run layer by layer
    LAYOUT    optional: "NCHW" where the target gives arrays of rank 4 to a user's layer in this order alone
    write(source: Source, path: Path, **options) -> Written

`write` puts `path` and what belongs to it into path's folder, which is empty and temporary. Net.write compares
the result with the source there and moves the files to where they were wanted, whole or not at all: a writer needs
no temporary names. Files name each other relatively. Only options that the caller gave are passed; `functions`,
`keep` and `batch` have done their work in source.graph already, and are passed only to be known.

What the target cannot express is refused with a LayerError that names the node (`with at(node.place)`) and the
nearest way out. A module without WHAT (ncnn's) serves an engine only.
"""
