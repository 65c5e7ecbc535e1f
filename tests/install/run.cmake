# Installs the built project into WORK_DIR and uses it from there, once through find_package and
# once through pkg-config. Run by ctest; arguments in ../CMakeLists.txt.
set(prefix ${WORK_DIR}/prefix)
file(REMOVE_RECURSE ${WORK_DIR})

function(must_run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}\nfailed (${result}):\n${output}")
  endif()
endfunction()

set(flags "")
if(SANITIZE)
  set(flags "-fsanitize=${SANITIZE}")
endif()

must_run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${prefix})

# Names this build's toolkit, because find_package(CUDAToolkit) searches only PATH for it.
if(WITH_CUDA)
  set(ENV{CUDAToolkit_ROOT} ${TOOLKIT})
endif()

# Uses the project's own generator, because the default one needs make.
must_run(${CMAKE_COMMAND} -S ${CONSUMER_DIR} -B ${WORK_DIR}/build -G ${GENERATOR}
  -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_FLAGS=${flags}
  -DCMAKE_FIND_PACKAGE_NO_PACKAGE_REGISTRY=ON -DSCBF_WANTED_VERSION=${VERSION})
must_run(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
must_run(${WORK_DIR}/build/consumer)
if(EXISTS ${WORK_DIR}/build/index_consumer)
  must_run(${WORK_DIR}/build/index_consumer)
elseif(WITH_INDEX)
  message(FATAL_ERROR "the installed package has no scbf::index")
endif()
if(EXISTS ${WORK_DIR}/build/cuda_consumer)
  must_run(${WORK_DIR}/build/cuda_consumer)
elseif(WITH_CUDA)
  message(FATAL_ERROR "the installed package has no scbf::cuda")
endif()

find_program(pkg_config NAMES pkg-config pkgconf)
if(NOT pkg_config)
  message(FATAL_ERROR "pkg-config is not there: install pkg-config")
endif()
set(ENV{PKG_CONFIG_PATH} ${prefix}/${LIBDIR}/pkgconfig)
execute_process(COMMAND ${pkg_config} --modversion scbf OUTPUT_VARIABLE found
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
if(NOT found STREQUAL VERSION)
  message(FATAL_ERROR "pkg-config says version ${found}, the project is ${VERSION}")
endif()
execute_process(COMMAND ${pkg_config} --cflags --libs scbf OUTPUT_VARIABLE options
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(options UNIX_COMMAND "${options}")
separate_arguments(flags UNIX_COMMAND "${flags}")
must_run(${COMPILER} -std=c++20 ${flags} ${CONSUMER_DIR}/consumer.cpp -o ${WORK_DIR}/by_pkg_config
  ${options})
must_run(${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${prefix}/${LIBDIR} ${WORK_DIR}/by_pkg_config)
