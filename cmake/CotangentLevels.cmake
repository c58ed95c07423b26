# Levels of the CPU (core/device/cpu_level.h): what COTANGENT_MARCH means, and how one library comes to have the kernels of several.
#
# COTANGENT_MARCH=levels compiles the files NAME_cpu.cpp once for each level, with `cpu_kernels`, the namespace of their
# tables, named after it, and everything else for every processor of the architecture. Two things keep the levels apart.
# Within a level all is as in a build for one processor: kernels call each other by name. And only a level's tables can be
# seen from outside: its objects are linked into one, whose other symbols are made local. Without that, a linker would take
# any one of the inline functions that they have in common with the rest (std::vector<float>, say), also one made of
# instructions that the machine lacks.
#
# Further levels, v4-bf16 and v4-amx, are those of processors with AVX512-BF16, and AMX too. They have v4's tables: code that
# differs there asks cpu_level() (ops/engine/gemm/pairs_cpu.h, amx_cpu.h).
#
# Any other COTANGENT_MARCH is a value of -march=, or empty, and makes a library of one level.

set(COTANGENT_CPU_LEVELS "")
if(COTANGENT_MARCH STREQUAL "levels")
  # GNU ld dissolves the groups in which such functions lie; others, and link-time optimisation, do not.
  execute_process(COMMAND "${CMAKE_LINKER}" --help OUTPUT_VARIABLE _help ERROR_QUIET)
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    set(_why "")  # one level: the architecture's baseline has vectors
  elseif(NOT _help MATCHES "--force-group-allocation" OR NOT CMAKE_OBJCOPY)
    set(_why "no GNU ld and objcopy")
  elseif(CMAKE_INTERPROCEDURAL_OPTIMIZATION OR CMAKE_CXX_FLAGS MATCHES "-flto")
    set(_why "link-time optimisation is on")
  else()
    set(COTANGENT_CPU_LEVELS v2 v3 v4)
  endif()
  if(NOT COTANGENT_CPU_LEVELS AND _why)
    message(STATUS "One level of the processor, its baseline: ${_why} (COTANGENT_MARCH=native is faster here)")
  endif()
endif()

# Benchmarks and tests of vectors, which only this machine runs, are compiled for its highest level.
if(COTANGENT_CPU_LEVELS)
  set(COTANGENT_BY_LEVEL ON)
  execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -march=native -dM -E -x c++ /dev/null OUTPUT_VARIABLE _macros)
  set(_here v2)
  if(_macros MATCHES "__AVX512VL__")
    set(_here v4)
  elseif(_macros MATCHES "__AVX2__")
    set(_here v3)
  endif()
  if(COTANGENT_LEVEL_HERE)
    set(COTANGENT_CPU_LEVELS ${_here})
  endif()
  list(TRANSFORM COTANGENT_CPU_LEVELS APPEND "_kernels" OUTPUT_VARIABLE COTANGENT_CPU_NAMESPACES)
  set(COTANGENT_CPU_NAMES ${COTANGENT_CPU_LEVELS})
  if("v4" IN_LIST COTANGENT_CPU_LEVELS)
    list(APPEND COTANGENT_CPU_NAMESPACES v4_kernels v4_kernels)
    list(APPEND COTANGENT_CPU_NAMES v4-bf16 v4-amx)
  endif()
  set(COTANGENT_HERE_FLAG -march=x86-64-${_here})
  # The functions of that level's files by name, for tests and benchmarks of what is inside of kernels.
  set(COTANGENT_INSIDES cotangent_insides)
else()
  set(COTANGENT_BY_LEVEL OFF)
  set(COTANGENT_CPU_NAMESPACES cpu_kernels)
  set(COTANGENT_CPU_LEVELS baseline)
  if(COTANGENT_MARCH_FLAG)
    set(COTANGENT_CPU_LEVELS "${COTANGENT_MARCH}")
  endif()
  set(COTANGENT_CPU_NAMES ${COTANGENT_CPU_LEVELS})
  set(COTANGENT_HERE_FLAG "${COTANGENT_MARCH_FLAG}")
  set(COTANGENT_INSIDES "")
endif()

# Compiled alone: cotangent_insides may not bring a table that the level has along with the functions of its folder.
set_source_files_properties("${PROJECT_SOURCE_DIR}/ops/engine/map/chain_cpu.cpp" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

# Compiles `sources` for every level into `target`.
function(cotangent_add_levels target sources)
  foreach(level IN LISTS COTANGENT_CPU_LEVELS)
    set(objects cotangent_cpu_${level})
    add_library(${objects} OBJECT ${sources})
    cotangent_library_sources(${objects})
    target_compile_options(${objects} PRIVATE -march=x86-64-${level})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${objects} PRIVATE -fno-gnu-unique)  # symbols that are unique in a process can't be made local
    endif()
    target_compile_definitions(${objects} PRIVATE cpu_kernels=${level}_kernels)
    cotangent_kernel_options(${objects})
    set(all "$<FILTER:$<TARGET_OBJECTS:${objects}>,INCLUDE,\\.o$>")  # a precompiled header is among them
    set(whole "${PROJECT_BINARY_DIR}/levels/${level}")
    string(LENGTH "${level}_kernels" length)
    add_custom_command(OUTPUT "${whole}.o"
      COMMAND "${CMAKE_LINKER}" -r --force-group-allocation -o "${whole}_all.o" "${all}"
      COMMAND "${CMAKE_OBJCOPY}" --wildcard "--keep-global-symbol=_ZN2ct${length}${level}_kernels*" "${whole}_all.o" "${whole}.o"
      DEPENDS ${objects} "${all}" COMMAND_EXPAND_LISTS VERBATIM
      COMMENT "Linking the kernels of x86-64-${level}")
    target_sources(${target} PRIVATE "${whole}.o")
    if(COTANGENT_HERE_FLAG MATCHES "${level}$")
      add_library(cotangent_insides STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${objects}>)
      set_target_properties(cotangent_insides PROPERTIES LINKER_LANGUAGE CXX)
    endif()
  endforeach()
  file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/levels")
endfunction()
