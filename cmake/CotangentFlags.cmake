# Compiler flags. Everything here is private to this project's own targets: a consumer's flags are its own.

include(CheckCXXCompilerFlag)

set(COTANGENT_MARCH_FLAG "")
if(COTANGENT_MARCH AND NOT COTANGENT_MARCH STREQUAL "levels")
  string(MAKE_C_IDENTIFIER "COTANGENT_HAS_MARCH_${COTANGENT_MARCH}" _var)
  check_cxx_compiler_flag("-march=${COTANGENT_MARCH}" ${_var})
  if(${_var})
    set(COTANGENT_MARCH_FLAG "-march=${COTANGENT_MARCH}")
  elseif(NOT COTANGENT_MARCH STREQUAL "native")
    message(FATAL_ERROR "COTANGENT_MARCH=${COTANGENT_MARCH}: the compiler does not accept "
                        "-march=${COTANGENT_MARCH}")
  endif()
endif()

if(COTANGENT_SANITIZE MATCHES "thread" AND COTANGENT_SANITIZE MATCHES "address|leak")
  message(FATAL_ERROR "COTANGENT_SANITIZE=${COTANGENT_SANITIZE}: thread can't be combined with address or leak")
endif()

# Warnings, standard, visibility, sanitizers: for every target of this project.
function(cotangent_compile_options target)
  # psabi: vectors wider than the target's registers are passed between functions of one file only.
  set(warnings -Wall -Wextra -Wno-unused-parameter -Wno-psabi)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    list(APPEND warnings -Wno-restrict)  # a false alarm of g++ 12 over "text" + std::string (GCC bug 105651)
  endif()
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    list(APPEND warnings -Wno-bitwise-instead-of-logical)  # conditions joined with & where a branch would cost a loop
    list(APPEND warnings -Wno-unknown-warning-option)  # pragmas that name warnings of g++
    if(COTANGENT_SANITIZE)
      list(APPEND warnings -Wno-pass-failed)  # loops that are to be vectorised, and are not with the sanitizers' checks
    endif()
  endif()
  if(COTANGENT_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # The code that g++ adds for the sanitizers looks uninitialised to g++ itself. A build without them sees more.
    list(APPEND warnings -Wno-maybe-uninitialized)
  endif()
  if(COTANGENT_WERROR)
    list(APPEND warnings -Werror)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # Warnings that g++ derives after inlining have false positives: in its own AVX-512 headers through Eigen's (GCC bug
      # 105593), in std::variant, and in std::string (105329). Printed, but no error.
      list(APPEND warnings -Wno-error=maybe-uninitialized -Wno-error=array-bounds -Wno-error=stringop-overflow
           -Wno-error=stringop-overread)
    endif()
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Werror all-warnings>")
  endif()
  if(NOT PROJECT_IS_TOP_LEVEL AND NOT COTANGENT_WERROR)
    set(warnings -w)  # what a parent project asks of its own files is in this one's flags, too
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-w>")
  endif()
  list(JOIN warnings "," host_warnings)
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:${warnings}>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${host_warnings}>"
    # Lets the linker drop what a program does not use.
    "$<$<COMPILE_LANGUAGE:CXX>:-ffunction-sections;-fdata-sections>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-ffunction-sections,-fdata-sections>")
  # Work on tensors outside of a call is an error (core/device/in_call.h).
  target_compile_definitions(${target} PRIVATE "$<$<CONFIG:Debug>:COTANGENT_CHECK_CALLS>")
  set_target_properties(${target} PROPERTIES
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    CUDA_VISIBILITY_PRESET hidden)
  if(COTANGENT_SANITIZE)
    set(flags -fsanitize=${COTANGENT_SANITIZE} -fno-omit-frame-pointer)
    if(COTANGENT_SANITIZE MATCHES "undefined")
      list(APPEND flags -fno-sanitize-recover=undefined)  # a finding must fail the run
      if(COTANGENT_SANITIZE MATCHES "address")
        list(APPEND flags -fno-sanitize=object-size)  # a fifth of a kernel's compilation, for what AddressSanitizer sees
      endif()
      if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
        list(APPEND flags "-fsanitize-ignorelist=${PROJECT_SOURCE_DIR}/cmake/sanitizer_ignore.txt")
      endif()
    endif()
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${flags}>")
    target_compile_definitions(${target} PRIVATE _GLIBCXX_ASSERTIONS)
    target_link_options(${target} PRIVATE ${flags})
    # LLVM's linker where there is one: sanitizers make programs of 190 MB, for which GNU's takes six times as long.
    find_program(COTANGENT_LLD ld.lld)
    if(COTANGENT_LLD AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
      target_link_options(${target} PRIVATE -fuse-ld=lld)
    endif()
  endif()
endfunction()

# With precompiled headers g++ is let use memory: by itself it collects garbage each time that its heap has grown by a
# third, and goes through the precompiled header then.
if(COTANGENT_PRECOMPILE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:--param ggc-min-heapsize=1000000>")
endif()

# Hardening: for what reads files, and for programs and the Python module, which may meet files from strangers. Kernels have
# none of it. Release only: glibc's checks want optimisation, and sanitizers check more.
function(cotangent_harden target)
  if(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND NOT COTANGENT_SANITIZE)
    target_compile_options(${target} PRIVATE
      "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-fstack-protector-strong;-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")
    target_link_options(${target} PRIVATE LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
  endif()
endfunction()

# Speed: for the library itself, and what is measured beside it. `for`: -march= of host code.
function(cotangent_speed_flags target for)
  # errno and floating-point traps are never looked at, and giving them up lets loops vectorise. NaN, Inf,
  # signed zeros and the order of additions keep their meaning: no -ffast-math.
  set(flags -fno-math-errno -fno-trapping-math ${for})
  list(JOIN flags "," host_flags)
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:${flags}>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${host_flags}>"
    "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;--extended-lambda;SHELL:-Xfatbin -compress-all>")
  # Half the time of nvcc. Not for Hopper's own kernels, which are few, and of which ptxas says at full optimisation
  # only whether the products still overlap.
  if(COTANGENT_CUDA_COMPILE_ONLY AND NOT target STREQUAL "cotangent_sm90a")
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Ofc max>")
  endif()
  # A project that takes the sources in without choosing a build type does not mean kernels at -O0.
  target_compile_options(${target} PRIVATE "$<$<CONFIG:>:-O3>")
  # Error messages and asserts name a file relative to the project, whoever builds it and wherever.
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>")
endfunction()

# Precompiled headers: what nearly every file includes is parsed once per target (COTANGENT_PRECOMPILE). Off, a changed header
# recompiles no more than the files that include it, and a file that forgets an include does not compile. ccache serves plain
# compilations better.
# cotangent_precompile(TARGET HEADERS...), or (TARGET REUSE_FROM OTHER), of the same flags.
function(cotangent_precompile target)
  if(COTANGENT_PRECOMPILE AND NOT "${CMAKE_CXX_COMPILER_LAUNCHER}" MATCHES "ccache")
    if(NOT "${ARGV1}" STREQUAL "REUSE_FROM")
      list(PREPEND ARGN PRIVATE)
    endif()
    target_precompile_headers(${target} ${ARGN})
  endif()
endfunction()

# Unless COTANGENT_BATCH is off, the files of a folder (in the rooms of ops, of an op) are compiled as one, and a folder's
# kernels of the CPU as another: headers are parsed and templates instantiated once for all of them. clang-tidy reads them so in
# any case (batches.txt: batch and file, one a line). Off, a change recompiles less, and a file that forgets an include does not
# compile. So a name of a file's own has no second meaning in its folder.

# The op that a file of a room belongs to, as "ops/ROOM/NAME", or "ops/ROOM"; with plain kernels, oracle and samples apart.
function(cotangent_op_of file result)
  cmake_path(GET file PARENT_PATH op)
  file(GLOB headers RELATIVE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/${op}/*.h")
  foreach(header IN LISTS headers)  # sorted: the longest name that fits comes last
    string(REGEX REPLACE "\\.h$" "" name "${header}")
    string(FIND "${file}" "${name}" at)
    if(at EQUAL 0 AND EXISTS "${PROJECT_SOURCE_DIR}/${name}.cpp")
      set(op "${name}")
    endif()
  endforeach()
  string(REGEX MATCH "(_plain|_oracle|_samples)\\.cpp$" part "${file}")
  set(${result} "${op}${part}" PARENT_SCOPE)
endfunction()

# cotangent_batch(TARGET [NAME]): by NAME all as one.
function(cotangent_batch target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${COTANGENT_BATCH} UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "^${PROJECT_SOURCE_DIR}/(core|autograd|ops|nn)/.*\\.cpp$")
  foreach(source IN LISTS sources)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE file)
    set(batch "${file}")
    cmake_path(GET file PARENT_PATH folder)
    if(NOT folder STREQUAL COTANGENT_DEV)
      if(ARGN)
        set(batch "${ARGN}")
      elseif(file MATCHES "^ops/[^/]+/" AND NOT file MATCHES "^ops/engine/|_cpu(_[a-z0-9]+)?\\.cpp$")
        cotangent_op_of("${file}" batch)
      else()
        cmake_path(GET file PARENT_PATH batch)
        if(file MATCHES "_cpu(_[a-z0-9]+)?\\.cpp$")
          string(APPEND batch "/cpu")
        endif()
      endif()
      string(MAKE_C_IDENTIFIER "${batch}" group)
      set_property(SOURCE "${source}" PROPERTY UNITY_GROUP "${group}")
    endif()
    if(file MATCHES "_text(_cuda)?\\.cpp$")  # Texts in an object: the compiler names to the build what is included, not these.
      file(STRINGS "${source}" texts REGEX "\\.incbin")
      string(REGEX MATCHALL "cotangent/[^\"\\\\]+" texts "${texts}")
      list(TRANSFORM texts REPLACE "^cotangent" "${PROJECT_SOURCE_DIR}")
      if(texts)
        set_source_files_properties("${source}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON OBJECT_DEPENDS "${texts}")
      endif()
    endif()
    get_property(known GLOBAL PROPERTY COTANGENT_BATCHED)
    if(NOT file IN_LIST known)  # levels of the processor compile the same files again
      set_property(GLOBAL APPEND PROPERTY COTANGENT_BATCHED "${file}")
      file(APPEND "${PROJECT_BINARY_DIR}/batches.txt" "${batch} ${file}\n")
    endif()
  endforeach()
endfunction()
file(WRITE "${PROJECT_BINARY_DIR}/batches.txt" "")

# Kernels of the CPU. Short loops begin where a line of the cache does: one that lies across two may take twice as long (on
# Zen 3, i64 to f32 2.1 times, `where` 1.7), and where it lies is luck otherwise. Library 3% larger, 584 calls of ops 2% faster.
# They are at -O3. At -O2 with -O3's vectoriser and limits of inlining they are compiled 0 to 7% faster, but one call in
# seventeen takes over 5% longer.
function(cotangent_kernel_options target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -falign-loops=64)
  endif()
  cotangent_precompile(${target} <algorithm> <cmath> <cotangent/core/op/op_def.h> <cotangent/core/device/parallel.h>
    <cotangent/core/simd/exp.h>)
  cotangent_batch(${target})
endfunction()

# With COTANGENT_CUDA_COMPILE_ONLY kernels too, of a room, of all engines, and of the rooms with one file each: nvcc spends
# most of its time on headers. Elsewhere they are compiled file by file, on as many cores as there are.
function(cotangent_batch_kernels list)
  if(NOT COTANGENT_BATCH OR NOT COTANGENT_CUDA_COMPILE_ONLY)
    return()
  endif()
  set(groups "")
  foreach(source IN LISTS ${list})
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE file)
    if(file MATCHES "\\.cu$")
      cmake_path(GET file PARENT_PATH group)
      string(REGEX REPLACE "^ops/engine/.*" "ops/engine" group "${group}")
      list(APPEND groups "${group}")
      list(APPEND "files_${group}" "${source}")
      list(REMOVE_ITEM ${list} "${source}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES groups)
  foreach(group IN LISTS groups)
    list(LENGTH "files_${group}" count)
    if(count EQUAL 1 AND NOT group STREQUAL "ops")
      list(APPEND files_ops ${files_${group}})
      list(REMOVE_ITEM groups "${group}")
    endif()
  endforeach()
  foreach(group IN LISTS groups)
    list(TRANSFORM "files_${group}" REPLACE "(.+)" "#include \"\\1\"\n" OUTPUT_VARIABLE text)
    list(JOIN text "" text)
    file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/${group}/batch.cu" CONTENT "${text}" @ONLY)
    list(APPEND ${list} "${PROJECT_BINARY_DIR}/${group}/batch.cu")
  endforeach()
  set(${list} "${${list}}" PARENT_SCOPE)
endfunction()

# cotangent_executable(TARGET [LIBRARY]), which is cotangent_io.
function(cotangent_executable target)
  cotangent_compile_options(${target})
  list(APPEND ARGN cotangent_io)
  list(GET ARGN 0 library)
  target_link_libraries(${target} PRIVATE ${library})
  cotangent_harden(${target})
endfunction()
