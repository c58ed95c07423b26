# The list of rooms is the list of folders under ops/: it is made here, at configure time, and compiled into
# the library as an ordinary table. (Self-registration by static objects does not survive a static library:
# the linker leaves out object files that nothing refers to.)
#
# A room ops/NAME holds NAME.h, NAME.cpp, NAME_test.cpp and README.md. A room that has kernels, that is any of
# *_kernels.h, *_cpu.cpp or *_cuda.cu, must have them for both devices: *_cpu.cpp and *_cuda.cu. A room with
# none of the three (views, or ops composed of others) is complete without.
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
file(GLOB _entries CONFIGURE_DEPENDS LIST_DIRECTORIES true "${PROJECT_SOURCE_DIR}/ops/*")
file(GLOB _files CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/ops/*/*")
set(COTANGENT_ROOMS "")
set(_problems "")
foreach(_entry IN LISTS _entries)
  if(NOT IS_DIRECTORY "${_entry}")
    continue()
  endif()
  get_filename_component(_room "${_entry}" NAME)
  set(_in_room ${_files})
  list(FILTER _in_room INCLUDE REGEX "^ops/${_room}/")
  if(NOT _in_room)
    continue()  # an empty folder is what git leaves behind when a branch is switched
  endif()
  if(NOT _room MATCHES "^[a-z][a-z0-9_]*$")
    list(APPEND _problems "ops/${_room}: a room's name is a C++ identifier in snake_case")
    continue()
  endif()
  set(_missing "")
  foreach(_file ${_room}.h ${_room}.cpp ${_room}_test.cpp README.md)
    if(NOT "ops/${_room}/${_file}" IN_LIST _in_room)
      list(APPEND _missing "ops/${_room}/${_file}")
    endif()
  endforeach()
  set(_kernels ${_in_room})
  list(FILTER _kernels INCLUDE REGEX "(_kernels\\.h|_cpu\\.cpp|_cuda\\.cu)$")
  if(_kernels)
    foreach(_suffix _cpu.cpp _cuda.cu)
      if(NOT "${_kernels};" MATCHES "${_suffix};")
        list(APPEND _missing "ops/${_room}/${_room}${_suffix}")
      endif()
    endforeach()
  endif()
  foreach(_file IN LISTS _missing)
    list(APPEND _problems "${_file} is missing")
  endforeach()
  if("ops/${_room}/${_room}.cpp" IN_LIST _in_room AND "ops/${_room}/${_room}.h" IN_LIST _in_room)
    list(APPEND COTANGENT_ROOMS "${_room}")
  endif()
endforeach()
if(_problems)
  list(JOIN _problems "\n  " _text)
  set(_text "Rooms under ops/ are incomplete:\n  ${_text}\n"
            "A room holds NAME.h, NAME.cpp, NAME_test.cpp and README.md, and with kernels NAME_cpu.cpp and "
            "NAME_cuda.cu (CONTRIBUTING.md, 'Add an op'). "
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
foreach(_header autocast creation dispatch nvtx)  # what belongs to no room
  if(EXISTS "${PROJECT_SOURCE_DIR}/ops/${_header}.h")
    string(APPEND _ops_h "#include <cotangent/ops/${_header}.h>\n")
  endif()
endforeach()
foreach(_room IN LISTS COTANGENT_ROOMS)
  string(APPEND _declarations "extern const Room ${_room};\n")
  string(APPEND _pointers "      &rooms::${_room},\n")
  string(APPEND _ops_h "#include <cotangent/ops/${_room}/${_room}.h>\n")
endforeach()
if(COTANGENT_ROOMS)
  set(_body "  static const Room* const rooms[] = {\n${_pointers}  };\n  return rooms;")
else()
  set(_body "  return {};")
endif()
cotangent_generate("${PROJECT_BINARY_DIR}/generated/rooms.cpp"
"// Generated from the folders under ops/: the table behind ct::registry().
#include <span>

#include <cotangent/core/registry.h>

namespace ct::rooms {
${_declarations}}  // namespace ct::rooms

namespace ct::detail {
std::span<const Room* const> builtin_rooms() {
${_body}
}
}  // namespace ct::detail
")
cotangent_generate("${PROJECT_BINARY_DIR}/include/cotangent/ops.h" "${_ops_h}")

set(COTANGENT_GENERATED_SOURCES "")
file(GLOB _registry CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/core/registry.h")
if(_registry)
  set(COTANGENT_GENERATED_SOURCES "${PROJECT_BINARY_DIR}/generated/rooms.cpp")
endif()

# The umbrella header. A folder that has a header of its own name (core/core.h) says itself what belongs to
# it; otherwise all its public headers do.
set(COTANGENT_PRIVATE_HEADER_REGEX "_(kernels|cpu|cuda|internal)(_[a-z0-9_]+)?\\.(h|cuh)$")
set(_umbrella "#pragma once\n\n// Everything. Generated from the source tree.\n\n")
foreach(_dir core autograd ops nn)
  if(_dir STREQUAL "ops")
    string(APPEND _umbrella "#include <cotangent/ops.h>\n")
    continue()
  endif()
  file(GLOB _headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/${_dir}/*.h")
  if("${_dir}/${_dir}.h" IN_LIST _headers)
    set(_headers "${_dir}/${_dir}.h")
  endif()
  foreach(_header IN LISTS _headers)
    if(NOT _header MATCHES "${COTANGENT_PRIVATE_HEADER_REGEX}")
      string(APPEND _umbrella "#include <cotangent/${_header}>\n")
    endif()
  endforeach()
endforeach()
cotangent_generate("${PROJECT_BINARY_DIR}/include/cotangent/cotangent.h" "${_umbrella}")

list(LENGTH COTANGENT_ROOMS _count)
list(APPEND COTANGENT_SUMMARY "ops|${_count} rooms")
