# Data of explain() (nn/explain/): its page as a text in the program, and the file and line where the kernels of an op
# are named. Written only when it changes.
set(_page "${PROJECT_SOURCE_DIR}/nn/explain/page.html")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${_page}")
file(READ "${_page}" _page)
# Kernels by their entries or their lines of a table, and where neither names the op its OpDef.
execute_process(
  COMMAND grep -rnoE --include=*_cpu.cpp --include=*_cuda.cu --include=*_plain.cpp --include=*_internal.h --include=*_table.inc
    "([{]|forward_only[(])\"[a-z0-9_]+\",|^CT_[A-Z_]+[(][a-z0-9_]+,|CT_(FOLD|PREDICATE)[(][a-z]+[)]|kName = \"[a-z0-9_]+\"" ops
  COMMAND sort -t : -k 1,1 -k 2,2n
  WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE _kernels)
execute_process(
  COMMAND grep -rnoE --include=*.cpp "^ +[.]name = \"[a-z0-9_]+\"" ops
  COMMAND sort -t : -k 1,1 -k 2,2n
  WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE _definitions)
string(REGEX REPLACE "([^:\n]+:[0-9]+):[^\n]*[(\"]([a-z0-9_]+)[^a-z0-9_\n]*\n" "    {\"\\2\", \"\\1\"},\n" _rows "${_kernels}${_definitions}")
cotangent_generate("${PROJECT_BINARY_DIR}/generated/explain_data.cpp" "// Generated from nn/explain/page.html and the files of ops/.
#include <cotangent/nn/explain/explain_internal.h>

namespace ct::explain_impl {
const char* const k_page = R\"page(${_page})page\";
const OpSource k_sources[] = {
${_rows}};
const std::size_t k_source_count = sizeof k_sources / sizeof k_sources[0];
}  // namespace ct::explain_impl
")
