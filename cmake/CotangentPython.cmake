# The Python module: _core, by nanobind, beside the files of python/cotangent. A package of it is made by
# scikit-build-core (pyproject.toml); in the build tree it can be imported from its folder python/.
find_package(Python 3.10 COMPONENTS Interpreter Development.Module REQUIRED)
if(NOT nanobind_ROOT AND NOT nanobind_DIR)
  execute_process(COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
    OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
find_package(nanobind CONFIG QUIET)
if(NOT nanobind_FOUND)
  message(FATAL_ERROR "COTANGENT_PYTHON needs nanobind for ${Python_EXECUTABLE}: `./ct python` brings it, in an "
    "environment of its own; or `${Python_EXECUTABLE} -m pip install nanobind`")
endif()

# Functions, layers, optimizers and plain classes are bound by what python/generate reads of the public headers.
file(GLOB _sources CONFIGURE_DEPENDS python/*.cpp)
file(GLOB _generators CONFIGURE_DEPENDS python/generate/*.py)
file(GLOB_RECURSE _headers CONFIGURE_DEPENDS core/*.h autograd/*.h ops/*.h nn/*.h)
set(_generated "${PROJECT_BINARY_DIR}/generated/python")
set(_bindings functions.cpp layers.cpp optimizers.cpp plain.cpp options.h published.json)
list(TRANSFORM _bindings PREPEND "${_generated}/")
add_custom_command(OUTPUT ${_bindings} DEPENDS ${_generators} ${_headers}
  COMMAND "${Python_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/python/generate/bindings.py" "${PROJECT_SOURCE_DIR}"
  "${PROJECT_BINARY_DIR}/include/cotangent/ops.h" "${_generated}" VERBATIM)
nanobind_add_module(cotangent_python NB_STATIC NOMINSIZE NB_SUPPRESS_WARNINGS ${_sources} ${_bindings})
target_include_directories(cotangent_python PRIVATE python "${_generated}")
set_source_files_properties(${_bindings} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
cotangent_compile_options(cotangent_python)
cotangent_harden(cotangent_python)
target_compile_options(cotangent_python PRIVATE "$<$<CONFIG:Release>:-O1>")  # it calls: a call takes as long, compiling 2/3
set_target_properties(cotangent_python nanobind-static PROPERTIES UNITY_BUILD ${COTANGENT_BATCH} UNITY_BUILD_BATCH_SIZE 0)
set(_package "${PROJECT_BINARY_DIR}/python/cotangent")
set_target_properties(cotangent_python PROPERTIES OUTPUT_NAME _core LIBRARY_OUTPUT_DIRECTORY "${_package}")
# All of the library is in the module, and ops of one's own are linked to it.
if(BUILD_SHARED_LIBS)
  message(FATAL_ERROR "COTANGENT_PYTHON wants static libraries, which the module takes in; leave BUILD_SHARED_LIBS off")
endif()
target_link_libraries(cotangent_python PRIVATE cotangent_loader cotangent_io cotangent_samples)
# Some toolchains link a libstdc++ of their own into all that they make. Seen by others, half of it would be mixed up with the
# libstdc++ of NumPy and PyTorch: the first number in an error's text then ends the process.
target_link_options(cotangent_python PRIVATE LINKER:--exclude-libs,libstdc++.a)

# The package in the build tree has links to the sources: a changed file is imported at once. Stubs are written by the
# finished module, so that they know every op.
file(GLOB _files CONFIGURE_DEPENDS python/cotangent/*.py python/cotangent/py.typed)
file(MAKE_DIRECTORY "${_package}")
foreach(_file IN LISTS _files)
  get_filename_component(_name "${_file}" NAME)
  file(CREATE_LINK "${_file}" "${_package}/${_name}" SYMBOLIC)
endforeach()
add_custom_command(TARGET cotangent_python POST_BUILD
  COMMAND "${Python_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/python/generate/stubs.py" "${_package}" "${_generated}/published.json" VERBATIM)

if(COTANGENT_BUILD_TESTS AND NOT COTANGENT_TEST_PREFIX)
  cotangent_script_test(python "${CMAKE_COMMAND}" -E env PYTHONSAFEPATH=1 "PYTHONPATH=${PROJECT_BINARY_DIR}/python"
    "${Python_EXECUTABLE}" -m pytest -q -p no:cacheprovider "${PROJECT_SOURCE_DIR}/python/tests")
endif()

# Into a package: the module, and what an op of one's own is compiled with.
install(TARGETS cotangent_python LIBRARY DESTINATION . COMPONENT python)
install(FILES ${_files} DESTINATION . COMPONENT python)
install(DIRECTORY "${_package}/" DESTINATION . COMPONENT python FILES_MATCHING PATTERN "*.pyi")
