# SPDX-License-Identifier: Apache-2.0
# scbf_python_module(target [WITHOUT_INDEX]): an extension module of the Python package, over scbf::scbf, with the
# index if that is built. Included by the package and by the tests of its part for GPUs.
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module
  OPTIONAL_COMPONENTS Development.SABIModule)
if(NOT nanobind_DIR)
  execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
    OUTPUT_VARIABLE nanobind_DIR OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
find_package(nanobind CONFIG REQUIRED)
find_package(nlohmann_json REQUIRED)
set(scbf_python_dir ${CMAKE_CURRENT_LIST_DIR})

function(scbf_python_module target)
  # NOMINSIZE: for speed, as the library. NB_STATIC: the module needs no other of nanobind. NB_DOMAIN: nor
  # shares its exceptions with others that are made with it, such as DuckDB's.
  set(src ${scbf_python_dir}/src)
  nanobind_add_module(${target} STABLE_ABI FREE_THREADED NB_STATIC NOMINSIZE NB_SUPPRESS_WARNINGS NB_DOMAIN scbf
    ${src}/errors.cpp ${src}/gate.cpp ${src}/module.cpp ${src}/notes.cpp ${src}/outside.cpp ${src}/text.cpp
    ${src}/keys/arrow.cpp ${src}/keys/arrow_columns.cpp ${src}/keys/arrow_extensions.cpp
    ${src}/keys/arrow_types.cpp ${src}/keys/buffers.cpp ${src}/keys/hashes.cpp ${src}/keys/keys.cpp ${src}/keys/objects.cpp
    ${src}/keys/single_key.cpp ${src}/calls/run.cpp
    ${src}/classes/banks.cpp ${src}/classes/bulk.cpp ${src}/classes/files.cpp ${src}/classes/filters.cpp
    ${src}/classes/readers.cpp ${src}/classes/reports.cpp ${src}/classes/sizing.cpp)
  target_include_directories(${target} PRIVATE ${src} ${PROJECT_SOURCE_DIR}/cuda/include)
  target_link_libraries(${target} PRIVATE scbf::scbf scbf_outer_options fmt::fmt nlohmann_json::nlohmann_json)
  if(TARGET scbf::index AND NOT "WITHOUT_INDEX" IN_LIST ARGN)
    target_sources(${target} PRIVATE
      ${src}/keys/arrow_rows.cpp ${src}/classes/index.cpp ${src}/classes/index_reports.cpp
      ${src}/classes/index_rows.cpp ${src}/classes/index_upkeep.cpp)
    target_link_libraries(${target} PRIVATE scbf::index)
    target_compile_definitions(${target} PRIVATE SCBF_PYTHON_INDEX)
  endif()
  if(TARGET scbf::cuda)
    target_sources(${target} PRIVATE
      ${src}/device/arrays.cpp ${src}/device/device_array.cpp ${src}/device/device_filter.cpp
      ${src}/device/stream.cpp)
    # Compiled apart: its functions are called as methods of the other classes are.
    set_source_files_properties(${src}/device/device_filter.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cuda/src)
    target_include_directories(${target} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
    target_compile_definitions(${target} PRIVATE SCBF_PYTHON_CUDA)
  endif()
endfunction()
