// Layers for OpenCV's dnn module. Call register_layers() once, before the first network runs.
#pragma once

namespace numpy_layers {

void register_layers();

}  // namespace numpy_layers
