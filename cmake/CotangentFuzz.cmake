# Fuzzing of everything that reads files.
#   ct_fuzz             a CTest entry everywhere: changed copies of well-formed files, a fixed number of them
#   ct_libfuzzer_NAME   with -DCOTANGENT_LIBFUZZER=ON and Clang: libFuzzer, guided by coverage, as long as you like:
#                       CXX=clang++ cmake -B build-fuzz -DCOTANGENT_LIBFUZZER=ON -DCOTANGENT_SANITIZE=address,undefined
#                       build-fuzz/ct_libfuzzer_NAME -max_len=1048576 -timeout=120 -rss_limit_mb=3000 FOLDER

function(cotangent_fuzz_target name)
  add_executable(${name} ${ARGN} tests/fuzz/targets.cpp tests/fuzz/json_mutator.cpp tests/fuzz/text_targets.cpp
    tests/fuzz/pattern_generator.cpp)
  cotangent_executable(${name})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_options(${name} PRIVATE "$<$<CONFIG:Release>:-O1>")
endfunction()

cotangent_fuzz_target(ct_fuzz tests/fuzz/driver.cpp)
add_test(NAME ${COTANGENT_TEST_PREFIX}fuzz COMMAND ct_fuzz --rounds 20000 WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
set_tests_properties(${COTANGENT_TEST_PREFIX}fuzz PROPERTIES LABELS fuzz TIMEOUT 600)

option(COTANGENT_LIBFUZZER "Build the libFuzzer programs (Clang only)" OFF)
if(COTANGENT_LIBFUZZER)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "COTANGENT_LIBFUZZER needs Clang; configure with CXX=clang++")
  endif()
  foreach(_library cotangent_host cotangent_io)
    target_compile_options(${_library} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>")
  endforeach()
  foreach(_name safetensors npy npz idx tokens tokenizer huggingface merges text pattern normalizers model checkpoint)
    cotangent_fuzz_target(ct_libfuzzer_${_name} tests/fuzz/libfuzzer.cpp)
    target_compile_definitions(ct_libfuzzer_${_name} PRIVATE CT_FUZZ_TARGET="${_name}")
    target_compile_options(ct_libfuzzer_${_name} PRIVATE -fsanitize=fuzzer-no-link)
    target_link_options(ct_libfuzzer_${_name} PRIVATE -fsanitize=fuzzer)
  endforeach()
endif()
