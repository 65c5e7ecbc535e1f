# SCBF_CUDA: whether to build scbf::cuda. AUTO builds it where there is a CUDA compiler.
set(SCBF_CUDA ${scbf_default} CACHE STRING "Build the CUDA library scbf::cuda: AUTO, ON or OFF")
set_property(CACHE SCBF_CUDA PROPERTY STRINGS AUTO ON OFF)
set(scbf_with_cuda OFF)
if(SCBF_CUDA)
  include(CheckLanguage)
  # Machine code for Ampere, Ada and Hopper; PTX of the last for what follows.
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 86-real 89-real 90)
  endif()
  # A compiler may have been installed since this folder was configured without one.
  if(NOT CMAKE_CUDA_COMPILER)
    unset(CMAKE_CUDA_COMPILER CACHE)
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    set(scbf_with_cuda ON)
  elseif(NOT SCBF_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "SCBF_CUDA=${SCBF_CUDA}: there is no CUDA compiler; put nvcc into PATH, or "
      "set CMAKE_CUDA_COMPILER, or leave SCBF_CUDA at AUTO. scripts/install-deps --cuda brings a "
      "compiler and says how to use it")
  endif()
endif()
message(STATUS "CUDA (SCBF_CUDA=${SCBF_CUDA}): ${scbf_with_cuda}")
