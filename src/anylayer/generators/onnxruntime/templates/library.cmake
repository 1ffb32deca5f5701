add_library(layers MODULE layers.cpp)
set_target_properties(layers PROPERTIES PREFIX "lib" SUFFIX ".so" CXX_VISIBILITY_PRESET hidden)
