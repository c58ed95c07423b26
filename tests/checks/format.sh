#!/usr/bin/env bash
# Every tracked C++ and CUDA file is formatted as .clang-format says. The output of clang-format changes between
# releases, so one release decides: 14, which Debian 12 and Ubuntu 24.04 both have. Exit 77: it is not here.
#   usage: format.sh SOURCE_DIR
set -euo pipefail
cd "${1:?source folder}"

tool=""
for candidate in clang-format-14 clang-format; do
  if command -v "$candidate" >/dev/null && "$candidate" --version | grep -q 'version 14\.'; then
    tool=$candidate
    break
  fi
done
if [ -z "$tool" ]; then
  echo "skipped: clang-format 14 was not found (apt install clang-format-14)"
  exit 77
fi
if ! git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  echo "skipped: not a git checkout"
  exit 77
fi
git ls-files -z '*.h' '*.cuh' '*.cpp' '*.cu' | xargs -0 -r "$tool" --dry-run -Werror
echo "$(git ls-files '*.h' '*.cuh' '*.cpp' '*.cu' | wc -l) files are formatted"
