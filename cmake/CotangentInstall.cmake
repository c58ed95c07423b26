# The install tree has the include layout of the build tree. Paths inside the package are relative: an
# installed prefix can be moved.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS cotangent cotangent_io cotangent_image cotangent_testing cotangent_samples cotangent_plugin cotangent_loader EXPORT CotangentTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
set(_without_cuda "")
if(NOT COTANGENT_WITH_CUDA)
  set(_without_cuda PATTERN "core/cuda" EXCLUDE)  # what these headers declare is not in the library
endif()
foreach(_dir core autograd ops nn)
  if(IS_DIRECTORY "${PROJECT_SOURCE_DIR}/${_dir}")
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/${_dir}/" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/cotangent/${_dir}
      COMPONENT headers FILES_MATCHING
      PATTERN "*.h" PATTERN "*.cuh"
      REGEX "${COTANGENT_PRIVATE_HEADER_REGEX}" EXCLUDE
      ${_without_cuda})
  endif()
endforeach()
install(FILES "${PROJECT_BINARY_DIR}/include/cotangent/ops.h" "${PROJECT_BINARY_DIR}/include/cotangent/cotangent.h"
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/cotangent COMPONENT headers)
install(DIRECTORY "${PROJECT_BINARY_DIR}/moved/cotangent" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT headers)

set(_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Cotangent)
install(EXPORT CotangentTargets NAMESPACE Cotangent:: DESTINATION ${_package_dir})
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/CotangentConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/CotangentConfig.cmake" INSTALL_DESTINATION ${_package_dir}
  NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/CotangentConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/CotangentConfig.cmake" "${PROJECT_BINARY_DIR}/CotangentConfigVersion.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/CotangentOwnOp.cmake" DESTINATION ${_package_dir})

# The same for builds without CMake: a file for pkg-config of each library, by its name. Paths follow the file, as in the package
# above, and the standard is the program's to choose.
file(RELATIVE_PATH COTANGENT_PC_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" COTANGENT_PC_PREFIX "${COTANGENT_PC_PREFIX}")
function(cotangent_pc _pc_name _requires)
  string(JOIN " " _libs ${ARGN})
  configure_file("${PROJECT_SOURCE_DIR}/cmake/cotangent.pc.in" "${PROJECT_BINARY_DIR}/${_pc_name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${_pc_name}.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
if(BUILD_SHARED_LIBS)  # they bring what they are made with
  set(_loaded -Wl,--no-as-needed -lcotangent_plugin -lcotangent_testing -lcotangent)
else()
  set(_drop -Wl,--gc-sections)
  set(_system -lz -pthread -ldl)
  if(COTANGENT_WITH_CUDA)
    list(APPEND _system "-L${CUDAToolkit_LIBRARY_DIR}" -lcudart_static -lrt)
  endif()
  set(_pictures "")
  foreach(_format PNG JPEG)
    if(${_format}_FOUND)
      string(TOLOWER "-l${_format}" _format)
      list(APPEND _pictures ${_format})
    endif()
  endforeach()
  set(_loaded -Wl,--export-dynamic -Wl,--whole-archive)
  foreach(_library cotangent_plugin cotangent_testing cotangent)  # by file: of two -lNAME pkg-config keeps the last
    list(APPEND _loaded "\${libdir}/lib${_library}.a")
  endforeach()
  list(APPEND _loaded -Wl,--no-whole-archive)
endif()
cotangent_pc(cotangent "" ${_drop} -lcotangent_io -lcotangent ${_system})  # with io, as programs of 0.1 expect
cotangent_pc(cotangent_io cotangent -lcotangent_io)
cotangent_pc(cotangent_image cotangent_io -lcotangent_image ${_pictures})
cotangent_pc(cotangent_testing cotangent -lcotangent_testing)
cotangent_pc(cotangent_samples cotangent_testing -lcotangent_samples)
cotangent_pc(cotangent_plugin cotangent -lcotangent_plugin)
cotangent_pc(cotangent_loader "cotangent_plugin cotangent_testing" ${_loaded})
