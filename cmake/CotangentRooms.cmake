# The list of ops is the list of files under ops/: it is made here, at configure time, and compiled into the
# library as an ordinary table. (Self-registration by static objects does not survive a static library: the
# linker leaves out object files that nothing refers to.)
#
# A folder ops/ROOM, ops/engine and ops/testing apart, is a room: a README.md and one op or a family of them, each NAME.h,
# NAME.cpp and NAME_test.cpp. An op with kernels of its own has them for both devices, NAME_cpu.cpp and NAME_cuda.cu, and
# is tested with what NAME_samples.cpp or ROOM_samples.cpp holds; one without (views, ops composed of others) is complete
# without. Other files of the folder serve its ops. A large room has folders of its own for parts of the family (loss/classes).
#
# Also made here: the include directory of the build tree, where cotangent/{core,autograd,ops,nn} are links to
# the source folders, with the two headers that follow from the tree: cotangent/ops.h, cotangent/cotangent.h.

set(_include "${PROJECT_BINARY_DIR}/include/cotangent")
file(MAKE_DIRECTORY "${_include}")
foreach(_dir core autograd ops nn)
  set(_target "")
  if(IS_SYMLINK "${_include}/${_dir}")
    file(READ_SYMLINK "${_include}/${_dir}" _target)
  endif()
  if(NOT _target STREQUAL "${PROJECT_SOURCE_DIR}/${_dir}")
    file(REMOVE "${_include}/${_dir}")
    file(CREATE_LINK "${PROJECT_SOURCE_DIR}/${_dir}" "${_include}/${_dir}" SYMBOLIC)
  endif()
endforeach()

# --- rooms ---------------------------------------------------------------------------------------------
set(COTANGENT_PRIVATE_HEADER_REGEX "(_(kernels|cpu|cuda|plain|internal)(_[a-z0-9_]+)?\\.(h|cuh)$|/(ops/engine|ops/attention/mma|core/cuda/mma|core/simd)/)")
file(GLOB _entries CONFIGURE_DEPENDS LIST_DIRECTORIES true RELATIVE "${PROJECT_SOURCE_DIR}/ops" "${PROJECT_SOURCE_DIR}/ops/*")
file(GLOB _files CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/ops" "${PROJECT_SOURCE_DIR}/ops/*/*"
  "${PROJECT_SOURCE_DIR}/ops/*/*/*")
set(COTANGENT_OPS "")  # ROOM/NAME, or ROOM/PART/NAME
set(_rooms "")
set(_problems "")
foreach(_room IN LISTS _entries)
  set(_in_room ${_files})
  list(FILTER _in_room INCLUDE REGEX "^${_room}/")
  if(NOT _in_room OR _room MATCHES "^(engine|testing)$")  # an empty folder is what git leaves behind when a branch is switched
    continue()
  endif()
  list(APPEND _rooms "${_room}")
  if(NOT _room MATCHES "^[a-z][a-z0-9_]*$")
    list(APPEND _problems "ops/${_room}: a room's name is a C++ identifier in snake_case")
    continue()
  endif()
  set(_names "")
  foreach(_file IN LISTS _in_room)
    string(REGEX REPLACE "(_cpu)?\\.[a-z]+$" "" _name "${_file}")  # with its folders
    if((_file MATCHES "\\.h$" AND NOT "/ops/${_file}" MATCHES "${COTANGENT_PRIVATE_HEADER_REGEX}" AND "${_name}.cpp" IN_LIST _in_room)
       OR (_file MATCHES "_cpu\\.cpp$" AND "${_name}_cuda.cu" IN_LIST _in_room))
      list(APPEND _names "${_name}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES _names)
  set(_wanted "${_room}/README.md")
  if(NOT _names)
    list(APPEND _wanted "${_room}/${_room}.h" "${_room}/${_room}.cpp")
  endif()
  foreach(_name IN LISTS _names)
    list(APPEND COTANGENT_OPS "${_name}")
    list(APPEND _wanted "${_name}.h" "${_name}.cpp" "${_name}_test.cpp")
    set(_kernels ${_in_room})
    list(FILTER _kernels INCLUDE REGEX "^${_name}(_kernels\\.h|_cpu\\.cpp|_cuda\\.cu)$")
    if(_kernels)
      list(APPEND _wanted "${_name}_cpu.cpp" "${_name}_cuda.cu")
      if(NOT "${_room}/${_room}_samples.cpp" IN_LIST _in_room)
        list(APPEND _wanted "${_name}_samples.cpp")
      endif()
    endif()
  endforeach()
  foreach(_file IN LISTS _wanted)
    if(NOT _file IN_LIST _in_room)
      list(APPEND _problems "ops/${_file} is missing")
    endif()
  endforeach()
endforeach()
if(_problems)
  list(JOIN _problems "\n  " _text)
  set(_text "Rooms under ops/ are incomplete:\n  ${_text}\n"
            "A room holds README.md and for each op NAME.h, NAME.cpp and NAME_test.cpp, and with kernels "
            "NAME_cpu.cpp, NAME_cuda.cu and NAME_samples.cpp (CONTRIBUTING.md, 'Add an op'). "
            "While working on one, configure with -DCOTANGENT_ALLOW_UNFINISHED_ROOMS=ON.")
  string(CONCAT _text ${_text})
  if(COTANGENT_ALLOW_UNFINISHED_ROOMS)
    message(WARNING "${_text}")
  else()
    message(FATAL_ERROR "${_text}")
  endif()
endif()

# --- generated files: written only when their text changes, so that nothing is rebuilt for nothing -----
file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/generated")
function(cotangent_generate path text)
  file(CONFIGURE OUTPUT "${path}" CONTENT "${text}" @ONLY NEWLINE_STYLE UNIX)
endfunction()

set(_declarations "")
set(_pointers "")
set(_ops_h "#pragma once\n\n// Every op. Generated from the folders under ops/.\n\n")
foreach(_header autocast print)  # the door
  string(APPEND _ops_h "#include <cotangent/ops/${_header}.h>\n")
endforeach()
foreach(_op IN LISTS COTANGENT_OPS)
  get_filename_component(_name "${_op}" NAME)
  string(APPEND _declarations "extern const Room ${_name};\n")
  string(APPEND _pointers "      &rooms::${_name},\n")
  string(APPEND _ops_h "#include <cotangent/ops/${_op}.h>\n")
endforeach()
cotangent_generate("${PROJECT_BINARY_DIR}/generated/rooms.cpp"
"// Generated from the folders under ops/: the table behind ct::registry().
#include <span>

#include <cotangent/core/op/registry.h>

namespace ct::rooms {
${_declarations}}  // namespace ct::rooms

namespace ct::detail {
std::span<const Room* const> builtin_rooms() {
  static const Room* const rooms[] = {
${_pointers}  };
  return rooms;
}
}  // namespace ct::detail
")
cotangent_generate("${PROJECT_BINARY_DIR}/include/cotangent/ops.h" "${_ops_h}")

# Tests of the ops (ops/testing/samples.h): the tables of all files NAME_samples.cpp.
set(COTANGENT_SAMPLES ${_files})
list(FILTER COTANGENT_SAMPLES INCLUDE REGEX "_samples\\.cpp$")
set(_declarations "")
set(_pointers "")
foreach(_file IN LISTS COTANGENT_SAMPLES)
  string(REGEX REPLACE ".*/(.*)_samples\\.cpp$" "\\1" _name "${_file}")
  string(APPEND _declarations "extern const std::span<const OpTests> ${_name};\n")
  string(APPEND _pointers "      &op_tests::${_name},\n")
endforeach()
list(TRANSFORM COTANGENT_SAMPLES PREPEND "${PROJECT_SOURCE_DIR}/ops/")
list(APPEND COTANGENT_SAMPLES "${PROJECT_BINARY_DIR}/generated/samples.cpp")
cotangent_generate("${PROJECT_BINARY_DIR}/generated/samples.cpp"
"// Generated from the files NAME_samples.cpp under ops/: the tables behind ct::find_tests().
#include <cotangent/ops/testing/samples.h>

namespace ct::op_tests {
${_declarations}}  // namespace ct::op_tests

namespace ct::detail {
std::span<const std::span<const OpTests>* const> builtin_tests() {
  static const std::span<const OpTests>* const tables[] = {
${_pointers}  };
  return tables;
}
}  // namespace ct::detail
")

# The lists of tables (core/device/kernel_tables.h), each of those that bear its name: of the lines CT_KERNELS and CT_FUNCTIONS of
# the files NAME_cpu.cpp, NAME_cuda.cu and NAME_plain.cpp, and of the rows of the files *_table.inc which they include. A
# file for each NAME_cpu.cpp, so that a program that does not use it does not link it. They differ with and without CUDA.
set(COTANGENT_GENERATED_SOURCES "${PROJECT_BINARY_DIR}/generated/rooms.cpp" "${PROJECT_BINARY_DIR}/generated/cpu_levels.cpp")
set(COTANGENT_KERNEL_TABLES_CUDA "")
set(COTANGENT_KERNEL_TABLES_NOCUDA "")
# For each file `tables_FILE`, the tables that it makes; for each table `type_TABLE`, and `kinds_TABLE`, what makes it.
file(GLOB_RECURSE _kernel_files CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}" ops/*_cpu.cpp ops/*_cuda.cu ops/*_plain.cpp
  nn/*_cpu.cpp nn/*_cuda.cu nn/*_plain.cpp)
foreach(_file IN LISTS _kernel_files)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${_file}")
  string(REGEX REPLACE ".*_(cpu|cuda|plain)\\.[a-z]+$" "\\1" _kind "${_file}")
  file(STRINGS "${_file}" _lines REGEX "^(CT_KERNELS\\(|CT_FUNCTIONS\\(|#include <cotangent/.*_table\\.inc>)")
  foreach(_line IN LISTS _lines)
    set(_rows "${_line}")
    if(_line MATCHES "<cotangent/(.*)>")
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${CMAKE_MATCH_1}")
      file(STRINGS "${CMAKE_MATCH_1}" _rows REGEX "^CT_")
    endif()
    foreach(_row IN LISTS _rows)
      string(REGEX MATCH "^(CT_KERNELS\\([a-z]+, *|CT_[A-Z_]+\\((cpu, *|cuda, *)?(([A-Z][A-Za-z]+), *)?)([a-z0-9_]+)" _row "${_row}")
      set(_table "${CMAKE_MATCH_5}")
      set(_type_${_table} KernelTable)
      if(CMAKE_MATCH_4)
        set(_type_${_table} "${CMAKE_MATCH_4}")
      endif()
      list(APPEND _kinds_${_table} ${_kind})
      list(APPEND _tables_${_file} ${_table})
    endforeach()
  endforeach()
endforeach()
list(TRANSFORM COTANGENT_CPU_NAMESPACES PREPEND "cpu " OUTPUT_VARIABLE _spaces)
list(PREPEND _spaces "cuda cuda_kernels" "plain plain_kernels")
foreach(_file IN LISTS _kernel_files)
  if(NOT _tables_${_file} OR NOT _file MATCHES "^(.*)_cpu\\.cpp$")
    continue()
  endif()
  string(MAKE_C_IDENTIFIER "${CMAKE_MATCH_1}" _name)
  list(REMOVE_DUPLICATES _tables_${_file})
  foreach(_variant cuda nocuda)
    set(_text "")
    foreach(_table IN LISTS _tables_${_file})
      set(_type ${_type_${_table}})
      set(_list "")
      string(APPEND _text "struct ${_type};\n")
      foreach(_space IN LISTS _spaces)
        separate_arguments(_space)
        list(POP_FRONT _space _kind)
        if(NOT _kind IN_LIST _kinds_${_table} OR "${_kind} ${_variant}" STREQUAL "cuda nocuda")
          string(APPEND _list "nullptr, ")
          continue()
        endif()
        string(APPEND _text "namespace ${_space} {\nextern const ${_type} ${_table};\n}\n")
        string(APPEND _list "&${_space}::${_table}, ")
      endforeach()
      string(APPEND _text "namespace kernel_tables {\nextern const ${_type}* const ${_table}[];\n"
                          "const ${_type}* const ${_table}[] = {${_list}};\n}\n")
    endforeach()
    set(_path "${PROJECT_BINARY_DIR}/generated/${_variant}/${_name}_tables.cpp")
    cotangent_generate("${_path}" "// Generated from ${_file}, and its like for other devices. Tables<T> of core/device/kernel_tables.h, which is not
// included: parsing it would take the whole time of this file.

namespace ct {
${_text}}  // namespace ct
")
    string(TOUPPER "${_variant}" _upper)
    list(APPEND COTANGENT_KERNEL_TABLES_${_upper} "${_path}")
  endforeach()
endforeach()
list(TRANSFORM COTANGENT_CPU_NAMES REPLACE "(.+)" "\"\\1\"" OUTPUT_VARIABLE _levels)
list(JOIN _levels ", " _levels)
cotangent_generate("${PROJECT_BINARY_DIR}/generated/cpu_levels.cpp" "// Generated from COTANGENT_MARCH.
#include <cotangent/core/device/kernel_tables.h>

std::span<const char* const> ct::detail::built_cpu_levels() noexcept {
  static constexpr const char* levels[] = {${_levels}};
  return levels;
}
")

# The umbrella header. A folder that has a header of its own name (core/core.h) says itself what belongs to
# it; otherwise all its public headers do.
# Nor is it for what only those need who write ops, kernels or nodes of the tape; they include it by its name.
set(_not_for_programs "/(convert_element|function_node|index_error|inline_vector|kernel_tables|node|op_call|op_def|op_records|philox|registry)\\.h$")
set(_umbrella "#pragma once\n\n// Everything. Generated from the source tree.\n\n")
foreach(_dir core autograd ops nn)
  if(_dir STREQUAL "ops")
    string(APPEND _umbrella "#include <cotangent/ops.h>\n")
    continue()
  endif()
  file(GLOB _headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/${_dir}/*.h")
  if(_dir STREQUAL "core")
    file(GLOB _headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}" core/*/*.h)
    list(FILTER _headers EXCLUDE REGEX "^core/(cuda|jit|simd)/")
  elseif("${_dir}/${_dir}.h" IN_LIST _headers)
    set(_headers "${_dir}/${_dir}.h")
  endif()
  foreach(_header IN LISTS _headers)
    if(NOT _header MATCHES "${COTANGENT_PRIVATE_HEADER_REGEX}" AND NOT _header MATCHES "${_not_for_programs}")
      string(APPEND _umbrella "#include <cotangent/${_header}>\n")
    endif()
  endforeach()
endforeach()
cotangent_generate("${PROJECT_BINARY_DIR}/include/cotangent/cotangent.h" "${_umbrella}")

list(LENGTH _rooms _count)
list(APPEND COTANGENT_SUMMARY "ops|${_count} rooms")
