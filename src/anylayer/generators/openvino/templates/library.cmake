# cmake -B build -DOpenVINO_DIR=$(python -c "import openvino.utils as u; print(u.get_cmake_path())")
find_package(OpenVINO REQUIRED COMPONENTS Runtime)

add_library(layers MODULE layers.cpp)
target_link_libraries(layers PRIVATE openvino::runtime)
set_target_properties(layers PROPERTIES PREFIX "lib" SUFFIX ".so")
# ov::parallel_nt is TBB's, whose library is beside OpenVINO's in the wheel.
file(GLOB TBB "${OpenVINO_DIR}/../libs/libtbb.so.*")
if(TBB)
  list(GET TBB 0 TBB)
  target_link_libraries(layers PRIVATE ${TBB})
endif()
