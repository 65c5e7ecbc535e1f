# RocksDB: the target scbf_rocksdb. Debian's own CMake package asks for the development files of
# everything that RocksDB was built with.
find_path(SCBF_ROCKSDB_INCLUDE_DIR rocksdb/db.h)
find_library(SCBF_ROCKSDB_LIBRARY rocksdb)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(rocksdb_library
  REASON_FAILURE_MESSAGE "Debian: librocksdb-dev"
  REQUIRED_VARS SCBF_ROCKSDB_LIBRARY SCBF_ROCKSDB_INCLUDE_DIR)
if(rocksdb_library_FOUND AND NOT TARGET scbf_rocksdb)
  add_library(scbf_rocksdb INTERFACE)
  target_include_directories(scbf_rocksdb SYSTEM INTERFACE "${SCBF_ROCKSDB_INCLUDE_DIR}")
  target_link_libraries(scbf_rocksdb INTERFACE "${SCBF_ROCKSDB_LIBRARY}")
endif()
mark_as_advanced(SCBF_ROCKSDB_INCLUDE_DIR SCBF_ROCKSDB_LIBRARY)
