
add_executable(test_layers test_layers.cpp)
target_link_libraries(test_layers PRIVATE numpy_layers)

enable_testing()
add_test(NAME layers COMMAND test_layers ${CMAKE_CURRENT_SOURCE_DIR}/test_data.bin)
