// Layers as custom operators of ONNX Runtime, generated from NumPy. This file needs no library, and no headers but
// onnxruntime_api.hpp. In Python: options.register_custom_ops_library("liblayers.so")
#include "onnxruntime_api.hpp"

#include <exception>
#include <locale>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

