# Values of ct::build_info(). The settings are known while configuring; the commit is asked for at each build and
# its header written when it has changed, so that a commit recompiles core/base/version.cpp and nothing else.

if(CMAKE_SCRIPT_MODE_FILE)  # at each build: cmake -DSOURCE=... -DOUTPUT=... -P CotangentVersion.cmake
  set(commit unknown)
  execute_process(COMMAND git -C "${SOURCE}" rev-parse --show-toplevel
    OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
  get_filename_component(SOURCE "${SOURCE}" REALPATH)
  if(status EQUAL 0 AND top STREQUAL SOURCE)  # sources inside of another project's checkout have no commit of their own
    execute_process(COMMAND git -C "${SOURCE}" rev-parse --short=12 HEAD
      OUTPUT_VARIABLE text OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
    string(SUBSTRING "${text}" 0 12 text)
    if(status EQUAL 0 AND text)
      set(commit "${text}")
      execute_process(COMMAND git --no-optional-locks -C "${SOURCE}" status --porcelain --untracked-files=no
        OUTPUT_VARIABLE text ERROR_QUIET)
      if(text)
        string(APPEND commit -dirty)
      endif()
    endif()
  endif()
  file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT "#define COTANGENT_BUILD_COMMIT \"${commit}\"\n" @ONLY)
  return()
endif()

set(_commit "${PROJECT_BINARY_DIR}/generated/cotangent_commit.h")
add_custom_target(cotangent_commit BYPRODUCTS "${_commit}" COMMENT "" VERBATIM
  COMMAND "${CMAKE_COMMAND}" "-DSOURCE=${PROJECT_SOURCE_DIR}" "-DOUTPUT=${_commit}" -P "${CMAKE_CURRENT_LIST_FILE}")

string(TOUPPER "${CMAKE_BUILD_TYPE}" _type)
string(STRIP "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${_type}} ${COTANGENT_MARCH_FLAG}" _flags)
string(REGEX REPLACE " *[^ ]*[/\"\\][^ ]*" "" _flags "${_flags}")  # names of folders are private
list(JOIN COTANGENT_CUDA_ARCHS " " _archs)
set(_cuda "")
if(COTANGENT_WITH_CUDA)
  set(_cuda "${CMAKE_CUDA_COMPILER_VERSION}")
else()
  set(_archs "")
endif()
cotangent_generate("${PROJECT_BINARY_DIR}/generated/cotangent_settings.h"
"#define COTANGENT_BUILD_COMPILER \"${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}\"
#define COTANGENT_BUILD_TYPE \"${CMAKE_BUILD_TYPE}\"
#define COTANGENT_BUILD_FLAGS \"${_flags}\"
#define COTANGENT_BUILD_SANITIZERS \"${COTANGENT_SANITIZE}\"
#define COTANGENT_BUILD_CUDA \"${_cuda}\"
#define COTANGENT_BUILD_CUDA_ARCHITECTURES \"${_archs}\"
")
set_source_files_properties(core/base/version.cpp PROPERTIES
  INCLUDE_DIRECTORIES "${PROJECT_BINARY_DIR}/generated"
  OBJECT_DEPENDS "${_commit}")
add_dependencies(cotangent_host cotangent_commit)
