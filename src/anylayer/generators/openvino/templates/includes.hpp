// Layers as operations of an OpenVINO extension, generated from NumPy. This file needs OpenVINO only: the headers
// of the version that loads it. In Python: core.add_extension("liblayers.so")
#include <openvino/core/extension.hpp>
#include <openvino/core/op_extension.hpp>
#include <openvino/core/parallel.hpp>
#include <openvino/op/op.hpp>

#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

