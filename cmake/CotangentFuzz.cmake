# Fuzzing of everything that reads files.
#   ct_fuzz             a CTest entry everywhere: changed copies of well-formed files, a fixed number of them
#   ct_libfuzzer_NAME   with -DCOTANGENT_LIBFUZZER=ON and Clang: libFuzzer, guided by coverage, as long as you like:
#                       CXX=clang++ cmake -B build-fuzz -DCOTANGENT_LIBFUZZER=ON -DCOTANGENT_SANITIZE=address,undefined
#                       build-fuzz/ct_fuzz --seeds corpus
#                       build-fuzz/ct_libfuzzer_NAME -max_len=1048576 -len_control=100 -timeout=120 -rss_limit_mb=3000
#                         corpus/NAME
#                       (libFuzzer lets inputs grow slowly only where it is told to, since there is a mutator; a
#                       shorter run with -len_control=0 sees long ones from the start)

function(cotangent_fuzz_options target)
  cotangent_executable(${target} cotangent_image)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_options(${target} PRIVATE "$<$<CONFIG:Release>:-O1>" ${ARGN})
endfunction()
set(_fuzz_sources tests/fuzz/targets.cpp tests/fuzz/json_mutator.cpp tests/fuzz/text_targets.cpp tests/fuzz/picture_target.cpp
  tests/fuzz/pattern_generator.cpp)

add_executable(ct_fuzz tests/fuzz/driver.cpp ${_fuzz_sources})
cotangent_fuzz_options(ct_fuzz)
add_test(NAME ${COTANGENT_TEST_PREFIX}fuzz COMMAND ct_fuzz --rounds 20000 WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
set_tests_properties(${COTANGENT_TEST_PREFIX}fuzz PROPERTIES LABELS fuzz TIMEOUT 600)

option(COTANGENT_LIBFUZZER "Build the libFuzzer programs (Clang only)" OFF)
if(COTANGENT_LIBFUZZER)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "COTANGENT_LIBFUZZER needs Clang; configure with CXX=clang++")
  endif()
  get_property(_libraries GLOBAL PROPERTY COTANGENT_PARTS)
  list(FILTER _libraries EXCLUDE REGEX "_(plain|kernels)$")  # no file reaches what computes
  foreach(_library IN LISTS _libraries)
    target_compile_options(${_library} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>")
  endforeach()
  # The programs differ in one definition: shared files are compiled once.
  add_library(ct_libfuzzer_targets OBJECT ${_fuzz_sources})
  cotangent_fuzz_options(ct_libfuzzer_targets -fsanitize=fuzzer-no-link)
  foreach(_name safetensors npy npz idx picture tokens tokenizer huggingface merges text pattern normalizers model checkpoint)
    add_executable(ct_libfuzzer_${_name} tests/fuzz/libfuzzer.cpp)
    cotangent_fuzz_options(ct_libfuzzer_${_name} -fsanitize=fuzzer-no-link)
    target_compile_definitions(ct_libfuzzer_${_name} PRIVATE CT_FUZZ_TARGET="${_name}")
    target_link_libraries(ct_libfuzzer_${_name} PRIVATE ct_libfuzzer_targets)
    target_link_options(ct_libfuzzer_${_name} PRIVATE -fsanitize=fuzzer)
  endforeach()
endif()
