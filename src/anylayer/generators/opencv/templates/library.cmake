find_package(OpenCV REQUIRED COMPONENTS core dnn)

add_library(numpy_layers STATIC layers.cpp)
target_include_directories(numpy_layers PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_include_directories(numpy_layers SYSTEM PUBLIC ${OpenCV_INCLUDE_DIRS})
target_link_libraries(numpy_layers PUBLIC ${OpenCV_LIBS})
