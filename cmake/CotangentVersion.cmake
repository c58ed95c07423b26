# What ct::version() says: a source file of its own, which changes with the commit and compiles in no time.

set(_commit "unknown")
find_package(Git QUIET)
if(Git_FOUND)
  # A copy without history may lie within the clone of another project, whose commit would say nothing.
  execute_process(COMMAND "${GIT_EXECUTABLE}" rev-parse --show-toplevel WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    OUTPUT_VARIABLE _top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(REAL_PATH "${PROJECT_SOURCE_DIR}" _source)
  if(_top STREQUAL _source)
    execute_process(COMMAND "${GIT_EXECUTABLE}" describe --always --dirty --exclude=* --abbrev=12
      WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" RESULT_VARIABLE _failed OUTPUT_VARIABLE _described
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(NOT _failed AND _described)
      set(_commit "${_described}")
    endif()
  endif()
endif()
set(_compiler "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
foreach(_part "${CMAKE_BUILD_TYPE}" "${COTANGENT_MARCH_FLAG}")
  if(_part)
    string(APPEND _compiler ", ${_part}")
  endif()
endforeach()
if(COTANGENT_WITH_CUDA)
  string(APPEND _compiler ", CUDA ${CMAKE_CUDA_COMPILER_VERSION}")
endif()
cotangent_generate("${PROJECT_BINARY_DIR}/generated/version.cpp"
"// Generated when the build was configured.
#include <cotangent/core/version.h>

namespace ct {
const Version& version() {
  static constexpr Version built{\"${PROJECT_VERSION}\", \"${_commit}\", \"${_compiler}\"};
  return built;
}
}  // namespace ct
")
list(APPEND COTANGENT_GENERATED_SOURCES "${PROJECT_BINARY_DIR}/generated/version.cpp")
