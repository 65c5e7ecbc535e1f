# Looks for the CUDA toolkit; part of the build and of scbf-config.cmake. Sets CUDAToolkit_FOUND.
#
# FindCUDAToolkit of CMake 3.25.1, which is Debian 12's, fails in projects that ask for CMake 3.25
# or newer: it sets a property of the target CUDA::nvToolsExt, which CUDA 12.9 dropped. So it is told
# an older version.
set(scbf_minimum_version ${CMAKE_MINIMUM_REQUIRED_VERSION})
set(CMAKE_MINIMUM_REQUIRED_VERSION 3.24)
find_package(CUDAToolkit QUIET)
set(CMAKE_MINIMUM_REQUIRED_VERSION ${scbf_minimum_version})
unset(scbf_minimum_version)
