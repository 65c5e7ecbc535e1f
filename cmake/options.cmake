# What every target of this project is compiled with; never exported to users.
add_library(scbf_options INTERFACE)
target_compile_features(scbf_options INTERFACE cxx_std_20)
set(scbf_cxx_options -Wall -Wextra -Wpedantic -Wshadow -Wconversion
  -Wno-sign-conversion -Wno-missing-field-initializers)  # designated initialisers leave defaults out
set(scbf_cuda_options --Werror=all-warnings -Xcompiler=-Wall,-Wextra,-Werror)
if(SCBF_WERROR)
  list(APPEND scbf_cxx_options -Werror)
  target_compile_options(scbf_options INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:${scbf_cuda_options}>")
endif()
if(SCBF_SANITIZE)
  list(APPEND scbf_cxx_options -fsanitize=${SCBF_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(scbf_options INTERFACE -fsanitize=${SCBF_SANITIZE})
endif()
target_compile_options(scbf_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${scbf_cxx_options}>")
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
