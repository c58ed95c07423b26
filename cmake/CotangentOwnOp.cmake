# cotangent_own_op(TARGET FOLDER): the op of a folder (nn/plugin/README.md) as a part of a program.
function(cotangent_own_op target folder)
  cmake_path(ABSOLUTE_PATH folder BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE)
  target_sources(${target} PRIVATE "${folder}/op.cpp")
  # Its CUDA kernels are a text in the object: they are compiled when they first run.
  set_source_files_properties("${folder}/op.cpp" TARGET_DIRECTORY ${target} PROPERTIES INCLUDE_DIRECTORIES "${folder}")
  file(GLOB texts CONFIGURE_DEPENDS "${folder}/*.cu")
  set_source_files_properties("${folder}/op.cpp" TARGET_DIRECTORY ${target} PROPERTIES OBJECT_DEPENDS "${texts}")
  target_link_libraries(${target} PRIVATE Cotangent::testing)
endfunction()
