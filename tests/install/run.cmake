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

must_run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${prefix})

# Names this build's toolkit, because find_package(CUDAToolkit) searches only PATH for it.
if(WITH_CUDA)
  set(ENV{CUDAToolkit_ROOT} ${TOOLKIT})
endif()

# Uses the project's own generator, because the default one needs make.
must_run(${CMAKE_COMMAND} -S ${CONSUMER_DIR} -B ${WORK_DIR}/build -G ${GENERATOR}
  -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_COMPILER=${COMPILER}
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
must_run(${COMPILER} -std=c++20 "-DWANTED_VERSION=\"${VERSION}\"" ${CONSUMER_DIR}/consumer.cpp
  -o ${WORK_DIR}/by_pkg_config ${options})
must_run(${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${prefix}/${LIBDIR} ${WORK_DIR}/by_pkg_config)
if(WITH_INDEX)
  execute_process(COMMAND ${pkg_config} --cflags --libs scbf-index OUTPUT_VARIABLE options
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(options UNIX_COMMAND "${options}")
  must_run(${COMPILER} -std=c++20 ${CONSUMER_DIR}/index_consumer.cpp
    -o ${WORK_DIR}/index_by_pkg_config ${options})
  must_run(${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${prefix}/${LIBDIR}
    ${WORK_DIR}/index_by_pkg_config)
endif()

# Examples build against the installed copy: one program here, the page of the library.
must_run(${CMAKE_COMMAND} -S ${prefix}/${DOCDIR}/examples -B ${WORK_DIR}/examples -G ${GENERATOR}
  -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_COMPILER=${COMPILER}
  -DCMAKE_FIND_PACKAGE_NO_PACKAGE_REGISTRY=ON)
must_run(${CMAKE_COMMAND} --build ${WORK_DIR}/examples --target example_sizing)
must_run(${WORK_DIR}/examples/example_sizing)

# As a part of another project.
must_run(${CMAKE_COMMAND} -S ${CONSUMER_DIR}/within -B ${WORK_DIR}/within -G ${GENERATOR}
  -DCMAKE_CXX_COMPILER=${COMPILER} -DSCBF_SOURCE_DIR=${SOURCE_DIR})

# What shells and man find, if the command was built.
if(WITH_CLI)
  file(GLOB_RECURSE page ${prefix}/*/scbf.1)
  if(NOT page)
    message(FATAL_ERROR "there is no scbf.1 in ${prefix}")
  endif()
  file(READ ${page} text)
  if(NOT text MATCHES "\n\\.SH \"scbf build\"" OR NOT text MATCHES "capacity")
    message(FATAL_ERROR "${page} does not tell of 'scbf build' and its options")
  endif()
  set(share ${prefix}/${DATADIR})
  execute_process(COMMAND bash -c [=[
    . "$0" && ask() { COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _scbf; echo "$*: ${COMPREPLY[*]}"; }
    ask scbf bui; ask scbf build --fp; ask scbf verify ve; ask scbf query a.scbf build --inv]=]
    ${share}/bash-completion/completions/scbf OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
  if(NOT said STREQUAL "scbf bui: build\nscbf build --fp: --fpr\nscbf verify ve: \nscbf query a.scbf build --inv: --invert\n")
    message(FATAL_ERROR "completion for bash answers:\n${said}")
  endif()
  foreach(shell "zsh;zsh/site-functions/_scbf" "fish;fish/vendor_completions.d/scbf.fish")
    list(GET shell 0 name)
    list(GET shell 1 file)
    file(READ ${share}/${file} text)
    if(NOT text MATCHES "build" OR NOT text MATCHES "fpr")
      message(FATAL_ERROR "${share}/${file} does not know 'build' and --fpr")
    endif()
    find_program(${name} NAMES ${name})
    if(${name})
      must_run(${${name}} -n ${share}/${file})
    endif()
  endforeach()
  if(fish)
    must_run(${fish} -c [=[
      source $argv[1]
      set said (complete -C 'scbf build --fpr 1% --cap' 2>&1)
      if not string match -q -- '--capacity*' "$said"
        echo "$said"
        exit 1
      end]=] ${share}/fish/vendor_completions.d/scbf.fish)
  endif()
endif()
