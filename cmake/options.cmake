# What every target of this project is compiled with; never exported to users.
add_library(scbf_options INTERFACE)
target_compile_features(scbf_options INTERFACE cxx_std_20)
set(scbf_cxx_options "")
if(PROJECT_IS_TOP_LEVEL)  # in another project they would only be noise
  set(scbf_cxx_options -Wall -Wextra -Wpedantic -Wshadow -Wconversion
    -Wno-sign-conversion -Wno-missing-field-initializers)  # designated initialisers leave defaults out
endif()
# g++ collects garbage whenever its heap has grown by a share. Not to do so while the heap is below 512 MiB (here
# in KiB) makes a large source compile faster, and costs each compiler some hundred MiB.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND scbf_cxx_options --param=ggc-min-heapsize=524288)
endif()
set(scbf_cuda_options --Werror=all-warnings -Xcompiler=-Wall,-Wextra,-Werror)
if(SCBF_WERROR)
  list(APPEND scbf_cxx_options -Werror)
  target_compile_options(scbf_options INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:${scbf_cuda_options}>")
endif()
if(SCBF_SANITIZE)
  list(APPEND scbf_cxx_options -fsanitize=${SCBF_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(scbf_options INTERFACE -fsanitize=${SCBF_SANITIZE})
endif()
target_compile_options(scbf_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${scbf_cxx_options}>")
# For all that is not the engine: -O3 would take a quarter longer to compile and gain nothing.
add_library(scbf_outer_options INTERFACE)
target_link_libraries(scbf_outer_options INTERFACE scbf_options)
target_compile_options(scbf_outer_options INTERFACE "$<$<CONFIG:Release>:-O2>")
# Precompiled headers take a third off a first build; ccache, which makes later ones cheap, cannot
# keep what is compiled with them.
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES ccache)
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()
# scbf_precompile(target headers…): the first target of a folder compiles these headers, the others
# of the folder, which have the same options, use what it compiled.
function(scbf_precompile target)
  get_property(owner DIRECTORY PROPERTY scbf_precompiled)
  if(owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  else()
    target_precompile_headers(${target} PRIVATE ${ARGN})
    set_property(DIRECTORY PROPERTY scbf_precompiled ${target})
  endif()
endfunction()
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
