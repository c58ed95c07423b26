# The install tree has the include layout of the build tree. Paths inside the package are relative: an
# installed prefix can be moved.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS cotangent EXPORT CotangentTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(_dir core autograd ops nn)
  if(IS_DIRECTORY "${PROJECT_SOURCE_DIR}/${_dir}")
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/${_dir}/" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/cotangent/${_dir}
      FILES_MATCHING
      PATTERN "*.h" PATTERN "*.cuh"
      REGEX "${COTANGENT_PRIVATE_HEADER_REGEX}" EXCLUDE)
  endif()
endforeach()
install(FILES "${PROJECT_BINARY_DIR}/include/cotangent/ops.h" "${PROJECT_BINARY_DIR}/include/cotangent/cotangent.h"
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/cotangent)

set(_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Cotangent)
install(EXPORT CotangentTargets NAMESPACE Cotangent:: DESTINATION ${_package_dir})
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/CotangentConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/CotangentConfig.cmake" INSTALL_DESTINATION ${_package_dir}
  NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/CotangentConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/CotangentConfig.cmake" "${PROJECT_BINARY_DIR}/CotangentConfigVersion.cmake"
  DESTINATION ${_package_dir})
