# Install rules: library, headers, find_package(scbf), pkg-config.
include(CMakePackageConfigHelpers)

install(TARGETS scbf EXPORT scbf-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY core/include/scbf DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(scbf_with_cuda)
  install(TARGETS scbf_cuda EXPORT scbf-targets)
  install(DIRECTORY cuda/include/scbf DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(FILES cmake/find_cuda_toolkit.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/scbf)
endif()
if(scbf_with_index)
  install(TARGETS scbf_index EXPORT scbf-index-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY index/include/scbf DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT scbf-index-targets NAMESPACE scbf::
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/scbf)
  install(FILES cmake/Findrocksdb_library.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/scbf)
  get_target_property(scbf_index_type scbf_index TYPE)
endif()
install(EXPORT scbf-targets NAMESPACE scbf:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/scbf)

configure_package_config_file(cmake/scbf-config.cmake.in ${PROJECT_BINARY_DIR}/scbf-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/scbf)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/scbf-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/scbf-config.cmake ${PROJECT_BINARY_DIR}/scbf-config-version.cmake
  cmake/Findlibzstd.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/scbf)

# Relative to the file itself, so that an installed tree can be moved; unless the folders are given
# as absolute paths.
set(SCBF_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  file(RELATIVE_PATH SCBF_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  string(PREPEND SCBF_PC_PREFIX "\${pcfiledir}/")
endif()
foreach(folder IN ITEMS LIBDIR INCLUDEDIR)
  set(SCBF_PC_${folder} ${CMAKE_INSTALL_${folder}})
  if(NOT IS_ABSOLUTE "${SCBF_PC_${folder}}")
    string(PREPEND SCBF_PC_${folder} "\${prefix}/")
  endif()
endforeach()
# Who links the static library links what it needs, too.
get_target_property(SCBF_PC_PRIVATE scbf TYPE)
if(SCBF_PC_PRIVATE STREQUAL "STATIC_LIBRARY")
  set(SCBF_PC_PRIVATE "")
else()
  set(SCBF_PC_PRIVATE ".private")
endif()
set(SCBF_PC_CUDA "")
if(scbf_with_cuda AND SCBF_PC_PRIVATE STREQUAL "")
  set(SCBF_PC_CUDA " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt")
endif()
configure_file(cmake/scbf.pc.in ${PROJECT_BINARY_DIR}/scbf.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/scbf.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(scbf_with_index)
  set(SCBF_PC_ROCKSDB "")
  if(SCBF_PC_PRIVATE STREQUAL "")
    set(SCBF_PC_ROCKSDB " -lrocksdb")
  endif()
  configure_file(cmake/scbf-index.pc.in ${PROJECT_BINARY_DIR}/scbf-index.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/scbf-index.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()

install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR}
  FILES_MATCHING PATTERN "*.md" PATTERN "*.svg")
# To be built against the installed copy; the page of the library (docs/api.md) is one of them.
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
