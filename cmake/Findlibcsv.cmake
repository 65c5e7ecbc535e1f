# Debian's libcsv, which reads the command's tables: the target libcsv::libcsv.
find_path(SCBF_LIBCSV_INCLUDE_DIR csv.h)
find_library(SCBF_LIBCSV_LIBRARY csv)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(libcsv
  REASON_FAILURE_MESSAGE "Debian: libcsv-dev"
  REQUIRED_VARS SCBF_LIBCSV_LIBRARY SCBF_LIBCSV_INCLUDE_DIR)
if(libcsv_FOUND AND NOT TARGET libcsv::libcsv)
  add_library(libcsv::libcsv UNKNOWN IMPORTED)
  set_target_properties(libcsv::libcsv PROPERTIES
    IMPORTED_LOCATION "${SCBF_LIBCSV_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${SCBF_LIBCSV_INCLUDE_DIR}")
endif()
mark_as_advanced(SCBF_LIBCSV_INCLUDE_DIR SCBF_LIBCSV_LIBRARY)
