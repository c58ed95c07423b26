# One Catch2 executable out of every *_test.cpp beside the code and every .cpp under tests/.

# Random programs, for the tests and for comparing with PyTorch (tests/random_programs/README.md).
file(GLOB _programs CONFIGURE_DEPENDS tests/random_programs/program.cpp tests/random_programs/ops_*.cpp)
add_library(cotangent_random_programs OBJECT EXCLUDE_FROM_ALL ${_programs})
cotangent_compile_options(cotangent_random_programs)
target_link_libraries(cotangent_random_programs PUBLIC cotangent_io)
target_include_directories(cotangent_random_programs PUBLIC "${PROJECT_SOURCE_DIR}")
target_compile_options(cotangent_random_programs PRIVATE "$<$<CONFIG:Release>:-Og>" "$<$<CONFIG:Debug>:-O0>")
add_executable(ct_random_programs EXCLUDE_FROM_ALL tests/random_programs/main.cpp)
cotangent_compile_options(ct_random_programs)
target_link_libraries(ct_random_programs PRIVATE cotangent_random_programs)
set_target_properties(ct_random_programs PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")

find_package(Catch2 QUIET)
if(NOT TARGET Catch2::Catch2)
  list(APPEND COTANGENT_SUMMARY "tests|left out: Catch2 was not found (apt install catch2)")
  return()
endif()

file(GLOB _tests CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}"
  core/*/*_test.cpp autograd/*_test.cpp ops/*_test.cpp ops/*/*_test.cpp ops/*/*/*_test.cpp nn/*_test.cpp nn/*/*_test.cpp
  tests/*.cpp tests/*/*.cpp)
list(FILTER _tests EXCLUDE REGEX "^tests/(checks|consumers|fuzz)/|^tests/random_programs/(main|program|ops_.*)\\.cpp$")

# cotangent_test_program(TARGET LIBRARIES...): the tests that it is made of.
function(cotangent_test_program target)
  cotangent_compile_options(${target})
  target_link_libraries(${target} PRIVATE ${ARGN} cotangent_samples ${COTANGENT_INSIDES} Catch2::Catch2 ZLIB::ZLIB
    Threads::Threads ${CMAKE_DL_LIBS})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}")
  foreach(_target Eigen3::Eigen nlohmann_json::nlohmann_json)
    target_include_directories(${target} SYSTEM PRIVATE
      $<TARGET_PROPERTY:${_target},INTERFACE_INCLUDE_DIRECTORIES>)
  endforeach()
  target_compile_definitions(${target} PRIVATE
    COTANGENT_SOURCE_DIR="${PROJECT_SOURCE_DIR}" COTANGENT_BINARY_DIR="${PROJECT_BINARY_DIR}")
  # Tests are many and run once: compile them for the shorter build. (-O1 takes four tenths longer, -O0 no less time.) With
  # sanitizers -O1 takes three times as long as -O0.
  target_compile_options(${target} PRIVATE "$<$<CONFIG:Release>:-Og>" "$<$<CONFIG:Debug>:-O0>")
endfunction()

# The tests of one folder, for ./ct dev: with what checks each op of it, and without the libraries that ops know nothing of.
if(COTANGENT_DEV)
  set(_dev ${_tests})
  list(FILTER _dev INCLUDE REGEX "^${COTANGENT_DEV}/[^/]*$")
  add_executable(ct_dev EXCLUDE_FROM_ALL tests/main.cpp tests/conformance_test.cpp ${_dev})
  set(_libraries cotangent_image cotangent_io)
  if(COTANGENT_DEV MATCHES "^ops/" AND NOT COTANGENT_DEV STREQUAL "ops/recurrence")  # whose tests train a layer
    set(_libraries "")
  endif()
  cotangent_test_program(ct_dev ${_libraries})
  cotangent_precompile(ct_dev tests/catch.h <functional> <cotangent/core/op/op_def.h> <cotangent/ops.h>)
  find_program(COTANGENT_LLD ld.lld)
  if(COTANGENT_LLD)
    target_link_options(ct_dev PRIVATE -fuse-ld=lld)
  endif()
  set_source_files_properties(tests/conformance_test.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endif()

# cotangent_test_batches(RESULT FILES...): test files are compiled several as one, each in a namespace of its own, so that what two
# of them call alike does not meet. Their headers come before, outside of it. Apart are those that open a namespace, declare
# something extern, define macros, or what a namespace can't hold, and core/simd/simd_test.cpp, whose vectors are to be as wide as
# in the library.
function(cotangent_test_batches result)
  set(apart "^(namespace [a-z:]+ {|template <>|extern |CT_|void\\* operator |# *(define|undef) )")
  set(sources "")
  set(number 0)
  set(bytes 0)
  set(headers "")
  set(bodies "")
  foreach(file IN LISTS ARGN ITEMS LAST)
    if(NOT file STREQUAL "LAST")
      set(path "${PROJECT_SOURCE_DIR}/${file}")
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${path}")
      file(STRINGS "${path}" own REGEX "${apart}")
      if(own OR file STREQUAL "core/simd/simd_test.cpp" OR NOT COTANGENT_BATCH)
        list(APPEND sources "${file}")
        continue()
      endif()
      file(STRINGS "${path}" includes REGEX "^#include ")
      list(APPEND headers ${includes})
      string(MAKE_C_IDENTIFIER "${file}" name)
      string(APPEND bodies "namespace ${name} {\n#include \"${path}\"\n}\n")
      file(SIZE "${path}" size)
      math(EXPR bytes "${bytes} + ${size}")
    endif()
    if(bodies AND (file STREQUAL "LAST" OR bytes GREATER 240000))
      list(REMOVE_DUPLICATES headers)
      list(JOIN headers "\n" headers)
      set(batch "${PROJECT_BINARY_DIR}/generated/tests/batch_${number}.cpp")
      cotangent_generate("${batch}" "${headers}\n\n${bodies}")
      list(APPEND sources "${batch}")
      math(EXPR number "${number} + 1")
      set(bytes 0)
      set(headers "")
      set(bodies "")
    endif()
  endforeach()
  set(${result} ${sources} PARENT_SCOPE)
endfunction()

cotangent_test_batches(_sources ${_tests})
add_executable(ct_tests ${_sources})
cotangent_test_program(ct_tests cotangent_image cotangent_io cotangent_random_programs)
cotangent_own_op(ct_tests examples/custom_op/bump)
if(COTANGENT_PRECOMPILE)
  cotangent_precompile(ct_tests tests/catch.h tests/nn_testing.h <functional> <cotangent/core/op/op_def.h> <cotangent/ops.h>
    <cotangent/nn/optim/optim.h>)
elseif(NOT "${CMAKE_CXX_COMPILER_LAUNCHER}" MATCHES "ccache")
  target_precompile_headers(ct_tests PRIVATE tests/catch.h)
endif()
# main.cpp asks Catch2 v2 for its implementation, which must come before any other inclusion of it.
set_source_files_properties(tests/main.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON)

set_source_files_properties(core/simd/simd_test.cpp PROPERTIES
  COMPILE_OPTIONS "${COTANGENT_HERE_FLAG}" SKIP_PRECOMPILE_HEADERS ON)

# CTest entries: one per folder, selected by the file a test is written in.
set(COTANGENT_TEST_ENTRIES core autograd ops nn)
foreach(_file IN LISTS _tests)
  if(_file MATCHES "^tests/([^/]+)/")
    list(APPEND COTANGENT_TEST_ENTRIES "tests/${CMAKE_MATCH_1}")
  endif()
endforeach()
list(APPEND COTANGENT_TEST_ENTRIES tests)
list(REMOVE_DUPLICATES COTANGENT_TEST_ENTRIES)
foreach(_entry IN LISTS COTANGENT_TEST_ENTRIES)
  set(_spec "")
  foreach(_file IN LISTS _tests)
    if(_entry STREQUAL "tests")
      string(REGEX MATCH "^tests/[^/]+\\.cpp$" _in "${_file}")
    else()
      string(REGEX MATCH "^${_entry}/" _in "${_file}")
    endif()
    if(_in AND NOT _file MATCHES "^tests/(main|complexity_test)\\.cpp$")
      get_filename_component(_stem "${_file}" NAME_WLE)
      list(APPEND _spec "[#${_stem}]")
    endif()
  endforeach()
  if(_spec)
    list(JOIN _spec "," _spec)
    string(REPLACE "tests/" "" _name "${_entry}")
    add_test(NAME ${COTANGENT_TEST_PREFIX}unit.${_name} COMMAND ct_tests "-#" "${_spec}" WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
    set_tests_properties(${COTANGENT_TEST_PREFIX}unit.${_name} PROPERTIES LABELS unit TIMEOUT 1800
      COST $<BOOL:${COTANGENT_TEST_PREFIX}>  # the longest first: the last ones would run alone
      # A failed allocation is an answer that the library must handle, not the end.
      ENVIRONMENT "COTANGENT_TEST_POISON=1;ASAN_OPTIONS=allocator_may_return_null=1;UBSAN_OPTIONS=print_stacktrace=1")
  endif()
endforeach()
add_test(NAME ${COTANGENT_TEST_PREFIX}unit.complexity COMMAND ct_tests "[complexity]" WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
set_tests_properties(${COTANGENT_TEST_PREFIX}unit.complexity PROPERTIES LABELS unit TIMEOUT 1800)
# A level that there is none of ends the program with the library's message, before any test runs.
add_test(NAME ${COTANGENT_TEST_PREFIX}unit.level_unknown COMMAND ct_tests)
set_tests_properties(${COTANGENT_TEST_PREFIX}unit.level_unknown PROPERTIES LABELS unit TIMEOUT 60
  ENVIRONMENT COTANGENT_CPU=v9 PASS_REGULAR_EXPRESSION "^\\[cpu_level\\] COTANGENT_CPU is \"v9\"")
# The processor's other levels, those below this machine's: every op, and with the highest of them the suite too, but for what
# files and long trainings have to do with it, and for folders without vectors, which are the same code at every level: two fifths
# of the time. Apart: conformance takes six times as long in a heap that a long tape has been through. (The sanitizers' tree runs
# all with the narrowest vectors.)
set(_same_at_levels ${_tests})
list(FILTER _same_at_levels INCLUDE REGEX
  "^core/(base|jit|memory|op)/|^ops/collective/|^nn/(data|explain|io|parallel|profile|text)/|^nn/capture/memory_test")
list(TRANSFORM _same_at_levels REPLACE "^.*/([a-z0-9_]+)\\.cpp$" "~[#\\1]")
list(JOIN _same_at_levels "" _same_at_levels)
function(cotangent_level_test name level spec)
  add_test(NAME ${COTANGENT_TEST_PREFIX}unit.${name} COMMAND ct_tests "-#" "${spec}" WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
  set_tests_properties(${COTANGENT_TEST_PREFIX}unit.${name} PROPERTIES LABELS unit TIMEOUT 1800
    ENVIRONMENT "COTANGENT_CPU=${level};COTANGENT_TEST_POISON=1")
endfunction()
if(COTANGENT_BY_LEVEL)
  set(_levels ${COTANGENT_CPU_LEVELS})
  list(REVERSE _levels)
  set(_below OFF)
  set(_suites OFF)
  foreach(_level IN LISTS _levels)
    if(NOT _below)
      string(REGEX MATCH "${_level}$" _below "${COTANGENT_HERE_FLAG}")
      continue()
    endif()
    cotangent_level_test(level_${_level} ${_level} "[conformance]~[cuda]")
    if(NOT _suites)
      cotangent_level_test(level_${_level}_suite ${_level} "~[conformance]~[cuda]~[io]~[training]~[.]${_same_at_levels}")
      set(_suites ON)
    endif()
  endforeach()
  # The level v4 where this machine's is v4-bf16: the tests in which they differ.
  if(_macros MATCHES "__AVX512BF16__")
    cotangent_level_test(level_v4 v4 "[gemm]~[cuda],[matmul]~[cuda],[linear]~[cuda]")
  endif()
endif()
list(LENGTH _tests _count)
list(APPEND COTANGENT_SUMMARY "tests|${_count} files, Catch2 ${Catch2_VERSION}")
