# What every target of this project is compiled with; never exported to users.
add_library(scbf_options INTERFACE)
target_compile_features(scbf_options INTERFACE cxx_std_20)
target_compile_options(scbf_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
  -Wno-sign-conversion -Wno-missing-field-initializers)  # designated initialisers leave defaults out
if(SCBF_WERROR)
  target_compile_options(scbf_options INTERFACE -Werror)
endif()
if(SCBF_SANITIZE)
  target_compile_options(scbf_options INTERFACE -fsanitize=${SCBF_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(scbf_options INTERFACE -fsanitize=${SCBF_SANITIZE})
endif()
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
