# RocksDB: the target rocksdb_library::rocksdb_library. Debian's own CMake package asks for the
# development files of everything that RocksDB was built with. A target RocksDB::rocksdb that is
# there already is used.
include(CheckCXXSourceCompiles)
include(CMakePushCheckState)
include(FindPackageHandleStandardArgs)
set(scbf_rocksdb "")
set(scbf_rocksdb_problem "RocksDB was not found (Debian: librocksdb-dev)")
if(TARGET RocksDB::rocksdb)
  set(scbf_rocksdb RocksDB::rocksdb)
else()
  find_path(SCBF_ROCKSDB_INCLUDE_DIR rocksdb/db.h)
  find_library(SCBF_ROCKSDB_LIBRARY rocksdb)
  mark_as_advanced(SCBF_ROCKSDB_INCLUDE_DIR SCBF_ROCKSDB_LIBRARY)
  if(SCBF_ROCKSDB_INCLUDE_DIR AND SCBF_ROCKSDB_LIBRARY)
    set(scbf_rocksdb ${SCBF_ROCKSDB_LIBRARY})
  endif()
endif()
if(scbf_rocksdb AND NOT TARGET rocksdb_library::rocksdb_library)
  add_library(rocksdb_library::rocksdb_library INTERFACE IMPORTED)
  if(TARGET RocksDB::rocksdb)
    target_link_libraries(rocksdb_library::rocksdb_library INTERFACE RocksDB::rocksdb)
  else()
    target_include_directories(rocksdb_library::rocksdb_library INTERFACE "${SCBF_ROCKSDB_INCLUDE_DIR}")
    target_link_libraries(rocksdb_library::rocksdb_library INTERFACE "${SCBF_ROCKSDB_LIBRARY}")
  endif()
endif()
# The index derives from RocksDB's classes, which RocksDB's own release build makes impossible: it
# leaves out what names a class at run time (-fno-rtti).
if(scbf_rocksdb AND NOT TARGET RocksDB::rocksdb)
  cmake_push_check_state(RESET)
  set(CMAKE_REQUIRED_LIBRARIES rocksdb_library::rocksdb_library)
  set(CMAKE_REQUIRED_FLAGS -std=c++20)
  set(CMAKE_REQUIRED_QUIET TRUE)
  if(NOT SCBF_ROCKSDB_CHECKED STREQUAL scbf_rocksdb)  # a check that failed is made again
    unset(SCBF_ROCKSDB_CAN_BE_DERIVED_FROM CACHE)
  endif()
  check_cxx_source_compiles("
    #include <rocksdb/env.h>
    struct Log : rocksdb::Logger {
      using Logger::Logv;
      void Logv(const char*, va_list) override {}
    };
    int main() { Log log; }" SCBF_ROCKSDB_CAN_BE_DERIVED_FROM)
  if(SCBF_ROCKSDB_CAN_BE_DERIVED_FROM)
    set(SCBF_ROCKSDB_CHECKED ${scbf_rocksdb} CACHE INTERNAL "the library of which that is known")
  else()
    unset(SCBF_ROCKSDB_CAN_BE_LINKED CACHE)
    check_cxx_source_compiles("
      #include <rocksdb/options.h>
      int main() { rocksdb::Options options; }" SCBF_ROCKSDB_CAN_BE_LINKED)
    if(SCBF_ROCKSDB_CAN_BE_LINKED)
      set(scbf_rocksdb_problem
        "no class can be derived from those in ${scbf_rocksdb}: build RocksDB with USE_RTTI=1")
    else()
      set(scbf_rocksdb_problem "a program cannot be linked with ${scbf_rocksdb} alone: give its CMake \
package as the target RocksDB::rocksdb, or a shared library")
    endif()
    set(scbf_rocksdb "")
  endif()
  cmake_pop_check_state()
endif()
find_package_handle_standard_args(rocksdb_library
  REASON_FAILURE_MESSAGE "${scbf_rocksdb_problem}" REQUIRED_VARS scbf_rocksdb)
