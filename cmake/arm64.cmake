# SPDX-License-Identifier: Apache-2.0
# Toolchain file for 64-bit ARM on another machine. `scripts/install-deps --arm64` brings the compiler,
# QEMU, by which ctest runs what was built, and Debian's libraries for that architecture.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++-12)
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH scbf_checkout)
if(NOT CMAKE_SYSROOT)
  set(CMAKE_SYSROOT ${scbf_checkout}/.arm64)
endif()
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L ${CMAKE_SYSROOT})

# Libraries are those of that architecture; programs run here.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
