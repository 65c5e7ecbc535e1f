# Debian's libzstd, for compressed filters and the command's compressed inputs: the target
# libzstd::libzstd.
find_path(SCBF_LIBZSTD_INCLUDE_DIR zstd.h)
find_library(SCBF_LIBZSTD_LIBRARY zstd)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(libzstd
  REASON_FAILURE_MESSAGE "Debian: libzstd-dev"
  REQUIRED_VARS SCBF_LIBZSTD_LIBRARY SCBF_LIBZSTD_INCLUDE_DIR)
if(libzstd_FOUND AND NOT TARGET libzstd::libzstd)
  add_library(libzstd::libzstd UNKNOWN IMPORTED)
  set_target_properties(libzstd::libzstd PROPERTIES
    IMPORTED_LOCATION "${SCBF_LIBZSTD_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${SCBF_LIBZSTD_INCLUDE_DIR}")
endif()
mark_as_advanced(SCBF_LIBZSTD_INCLUDE_DIR SCBF_LIBZSTD_LIBRARY)
