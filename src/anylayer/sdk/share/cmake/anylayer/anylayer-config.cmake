# find_package(anylayer) gives the target anylayer::sdk (the headers) and the function
# anylayer_add_library(name source...), which makes a library of layers that anylayer can load.
# Find it with -DCMAKE_PREFIX_PATH="$(anylayer sdk)".
get_filename_component(_anylayer_root "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(anylayer_INCLUDE_DIRS "${_anylayer_root}/include")
set(anylayer_VERSION 1)

if(NOT TARGET anylayer::sdk)
  find_package(Threads REQUIRED)
  add_library(anylayer::sdk INTERFACE IMPORTED)
  set_target_properties(anylayer::sdk PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${anylayer_INCLUDE_DIRS}"
    INTERFACE_COMPILE_FEATURES cxx_std_17
    INTERFACE_LINK_LIBRARIES Threads::Threads)
endif()

function(anylayer_add_library name)
  add_library(${name} MODULE ${ARGN})
  target_link_libraries(${name} PRIVATE anylayer::sdk)
  set_target_properties(${name} PROPERTIES
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON)
endfunction()
