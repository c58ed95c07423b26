# CTest entries beside the Catch2 suite: the house rules, the consumers, and the link of the whole library.

# One run may gather several build trees (./ct test does): their entries are told apart by a prefix.
set(COTANGENT_TEST_PREFIX "")
if(COTANGENT_SANITIZE MATCHES "thread")
  set(COTANGENT_TEST_PREFIX "tsan.")
elseif(COTANGENT_SANITIZE)
  set(COTANGENT_TEST_PREFIX "asan.")
endif()

function(cotangent_script_test name)
  add_test(NAME ${COTANGENT_TEST_PREFIX}${name} COMMAND ${ARGN})
  string(REGEX REPLACE "\\..*" "" label ${name})
  set_tests_properties(${COTANGENT_TEST_PREFIX}${name} PROPERTIES LABELS ${label} SKIP_RETURN_CODE 77 TIMEOUT 1800)
endfunction()

set(_checks "${PROJECT_SOURCE_DIR}/tests/checks")
if(COTANGENT_BUILD_TESTS AND NOT COTANGENT_TEST_PREFIX)
  cotangent_script_test(check.format "${_checks}/format.sh" "${PROJECT_SOURCE_DIR}")
  cotangent_script_test(check.names python3 "${_checks}/names.py" "${PROJECT_SOURCE_DIR}")
  cotangent_script_test(check.faults python3 "${PROJECT_SOURCE_DIR}/tests/mutation.py" --list)
  cotangent_script_test(check.pytorch_page python3 "${_checks}/pytorch_page.py" "${PROJECT_SOURCE_DIR}")
  cotangent_script_test(check.tensor_members python3 "${_checks}/tensor_members.py" "${PROJECT_SOURCE_DIR}")
  cotangent_script_test(check.pytorch_code python3 "${_checks}/pytorch_page.py" "${PROJECT_SOURCE_DIR}" --run
    "${PROJECT_BINARY_DIR}" "${CMAKE_CXX_COMPILER}")
  cotangent_script_test(check.python python3 "${_checks}/python.py" "${PROJECT_SOURCE_DIR}")
  cotangent_script_test(check.includes "${_checks}/includes.sh" "${PROJECT_SOURCE_DIR}")
  cotangent_script_test(check.floors python3 "${_checks}/floors.py" "${PROJECT_SOURCE_DIR}")
  cotangent_script_test(check.namespaces python3 "${_checks}/namespaces.py" "${PROJECT_SOURCE_DIR}")
  cotangent_script_test(check.api "${_checks}/api.sh" "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}"
    "${CMAKE_CXX_COMPILER}")
  cotangent_script_test(check.docs "${_checks}/docs.sh" "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}"
    "${CMAKE_CXX_COMPILER}")
  foreach(_part text answers)
    string(REPLACE "check.book.text" "check.book" _name "check.book.${_part}")
    cotangent_script_test(${_name} python3 "${PROJECT_SOURCE_DIR}/docs/book/book.py" check --part ${_part}
      --build "${PROJECT_BINARY_DIR}" --compiler "${CMAKE_CXX_COMPILER}")
  endforeach()
  cotangent_script_test(check.exercises python3 "${PROJECT_SOURCE_DIR}/docs/book/exercise.py" check
    --work "${PROJECT_BINARY_DIR}/exercises" --compiler "${CMAKE_CXX_COMPILER}")
  if(COTANGENT_PYTHON)  # whose environment ./ct fills
    cotangent_script_test(check.site "${Python_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/docs/site/site.py" check
      "${PROJECT_BINARY_DIR}/site")
  endif()
  if(CMAKE_EXPORT_COMPILE_COMMANDS)
    cotangent_script_test(check.clangd "${_checks}/clangd.sh" "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}")
  endif()
  cotangent_script_test(check.doctor "${_checks}/doctor.sh" "${PROJECT_SOURCE_DIR}")
  cotangent_script_test(check.bench_page python3 "${PROJECT_SOURCE_DIR}/tests/bench_page_test.py" "${PROJECT_SOURCE_DIR}")
  if(NOT COTANGENT_PYTHON)  # else CotangentPython.cmake adds it
    cotangent_script_test(python sh -c "echo 'skipped: COTANGENT_PYTHON is off, which wants nanobind' && exit 77")
  endif()
  cotangent_script_test(check.rooms "${_checks}/rooms.sh" "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/checks/rooms")
endif()

if(COTANGENT_BUILD_TESTS)
  cotangent_script_test(check.budgets python3 "${_checks}/budgets.py" "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}")
endif()
if(COTANGENT_CONSUMER_TESTS AND CMAKE_EXPORT_COMPILE_COMMANDS AND NOT COTANGENT_TEST_PREFIX)  # slow as they are
  cotangent_script_test(check.tidy "${_checks}/tidy.sh" "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}")
  set_tests_properties(check.tidy PROPERTIES COST 1)  # begun first, as the tests with sanitizers are
endif()

if(COTANGENT_BUILD_TESTS AND COTANGENT_INSTALL AND NOT COTANGENT_SANITIZE)
  cotangent_script_test(check.headers "${_checks}/headers.sh" "${PROJECT_BINARY_DIR}" "${CMAKE_CXX_COMPILER}")
  if(COTANGENT_WITH_CUDA)
    cotangent_script_test(check.cuda_headers "${_checks}/headers.sh" "${PROJECT_BINARY_DIR}" "${CMAKE_CXX_COMPILER}"
      "${CMAKE_CUDA_COMPILER}")
  endif()
endif()

# Counted as the library is built by default; another level of optimisation has other counts.
if(COTANGENT_BUILD_TESTS AND NOT COTANGENT_SANITIZE AND NOT BUILD_SHARED_LIBS AND CMAKE_BUILD_TYPE STREQUAL "Release" AND
    CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  add_executable(ct_instructions tests/checks/instructions.cpp)
  cotangent_compile_options(ct_instructions)
  target_link_libraries(ct_instructions PRIVATE cotangent ${CMAKE_DL_LIBS})
  cotangent_script_test(check.instructions ct_instructions)
endif()

if(COTANGENT_BUILD_TESTS AND NOT COTANGENT_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_executable(ct_gdb tests/checks/gdb_program.cpp)
  cotangent_compile_options(ct_gdb)
  target_compile_options(ct_gdb PRIVATE -O0 -g -femit-class-debug-always)
  target_link_libraries(ct_gdb PRIVATE cotangent)
  cotangent_script_test(check.gdb "${_checks}/gdb.sh" "${PROJECT_SOURCE_DIR}" "$<TARGET_FILE:ct_gdb>")
endif()

if(COTANGENT_BUILD_TESTS)
  # Work after main().
  add_executable(ct_at_exit tests/checks/at_exit.cpp)
  cotangent_compile_options(ct_at_exit)
  target_compile_options(ct_at_exit PRIVATE "$<$<CONFIG:Release>:-Og>" "$<$<CONFIG:Debug>:-O0>")
  target_link_libraries(ct_at_exit PRIVATE cotangent_io cotangent_samples)
  target_include_directories(ct_at_exit PRIVATE "${PROJECT_SOURCE_DIR}")
  cotangent_script_test(check.at_exit ct_at_exit "${PROJECT_BINARY_DIR}/at_exit.safetensors")
  cotangent_script_test(check.at_exit_cold ct_at_exit "${PROJECT_BINARY_DIR}/at_exit_cold.safetensors" cold)
endif()
if(COTANGENT_BUILD_TESTS AND NOT COTANGENT_TEST_PREFIX)
  cotangent_script_test(check.waits python3 "${_checks}/waits.py" "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}")
endif()
if(COTANGENT_BUILD_TESTS AND NOT COTANGENT_SANITIZE AND NOT BUILD_SHARED_LIBS)
  cotangent_script_test(check.statics "${_checks}/statics.sh" "${PROJECT_BINARY_DIR}")
endif()

if(COTANGENT_BUILD_TESTS AND NOT COTANGENT_SANITIZE)
  # The library inside of a shared object that a running program loads.
  add_library(ct_plugin MODULE tests/consumers/plugin.cpp)
  add_executable(ct_plugin_host tests/consumers/plugin_host.cpp)
  foreach(_target ct_plugin ct_plugin_host)
    cotangent_compile_options(${_target})
  endforeach()
  target_link_libraries(ct_plugin PRIVATE cotangent)
  target_link_libraries(ct_plugin_host PRIVATE ${CMAKE_DL_LIBS})
  cotangent_script_test(plugin ct_plugin_host $<TARGET_FILE:ct_plugin>)
endif()

if(COTANGENT_CONSUMER_TESTS)
  foreach(_case installed shared subdirectory fetchcontent)
    cotangent_script_test(consumer.${_case} "${PROJECT_SOURCE_DIR}/tests/consumers/run.sh" ${_case}
      "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}")
  endforeach()
endif()

if(COTANGENT_LINK_TEST)
  # Every object file, wanted or not: functions that are declared, called and nowhere defined show here.
  add_executable(ct_link tests/consumers/main.cpp)
  cotangent_compile_options(ct_link)
  target_link_libraries(ct_link PRIVATE cotangent_io cotangent_samples cotangent_testing cotangent)
  set_target_properties(ct_link PROPERTIES LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,cotangent_io,cotangent_samples,cotangent_testing,cotangent")
  cotangent_script_test(link ct_link)
endif()
