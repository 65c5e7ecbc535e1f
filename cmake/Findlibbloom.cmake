# Debian's libbloom (jvirkki), a comparator of the benchmarks: the target libbloom::libbloom.
find_path(SCBF_LIBBLOOM_INCLUDE_DIR bloom.h)
find_library(SCBF_LIBBLOOM_LIBRARY bloom)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(libbloom
  REASON_FAILURE_MESSAGE "Debian: libbloom-dev"
  REQUIRED_VARS SCBF_LIBBLOOM_LIBRARY SCBF_LIBBLOOM_INCLUDE_DIR)
if(libbloom_FOUND AND NOT TARGET libbloom::libbloom)
  add_library(libbloom::libbloom UNKNOWN IMPORTED)
  set_target_properties(libbloom::libbloom PROPERTIES
    IMPORTED_LOCATION "${SCBF_LIBBLOOM_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${SCBF_LIBBLOOM_INCLUDE_DIR}")
endif()
mark_as_advanced(SCBF_LIBBLOOM_INCLUDE_DIR SCBF_LIBBLOOM_LIBRARY)
