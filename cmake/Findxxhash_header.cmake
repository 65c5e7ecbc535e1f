# xxHash, of which only the header is used (XXH_INLINE_ALL): the target scbf_xxhash. Debian's
# libxxhash-dev brings no CMake package.
find_path(SCBF_XXHASH_INCLUDE_DIR xxhash.h)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(xxhash_header
  REASON_FAILURE_MESSAGE "Debian: libxxhash-dev" REQUIRED_VARS SCBF_XXHASH_INCLUDE_DIR)
if(xxhash_header_FOUND AND NOT TARGET scbf_xxhash)
  add_library(scbf_xxhash INTERFACE)
  target_include_directories(scbf_xxhash SYSTEM INTERFACE "${SCBF_XXHASH_INCLUDE_DIR}")
endif()
mark_as_advanced(SCBF_XXHASH_INCLUDE_DIR)
