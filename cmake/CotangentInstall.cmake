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

set(_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Cotangent)
install(EXPORT CotangentTargets NAMESPACE Cotangent:: DESTINATION ${_package_dir})
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/CotangentConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/CotangentConfig.cmake" INSTALL_DESTINATION ${_package_dir}
  NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/CotangentConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/CotangentConfig.cmake" "${PROJECT_BINARY_DIR}/CotangentConfigVersion.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/CotangentOwnOp.cmake" DESTINATION ${_package_dir})

# The same for builds without CMake: pkg-config. Paths follow the file, as in the package above.
get_target_property(_type cotangent TYPE)
set(COTANGENT_PC_LIBS "")
if(_type STREQUAL "STATIC_LIBRARY")  # a shared library brings its own
  set(COTANGENT_PC_LIBS "-lz -pthread")
  if(COTANGENT_WITH_CUDA)
    string(APPEND COTANGENT_PC_LIBS " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt")
  endif()
endif()
file(RELATIVE_PATH COTANGENT_PC_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" COTANGENT_PC_PREFIX "${COTANGENT_PC_PREFIX}")
configure_file("${PROJECT_SOURCE_DIR}/cmake/cotangent.pc.in" "${PROJECT_BINARY_DIR}/cotangent.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/cotangent.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
