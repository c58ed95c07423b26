#!/usr/bin/env bash
# No static or thread_local object of the library has a destructor: code that runs while the process or a thread ends would
# find it destroyed. Per-thread objects are per_thread()'s (core/base/per_thread.h), whose one call is the only one there may be.
#   usage: statics.sh BUILD_DIR
set -uo pipefail
red=0 at_thread_end=0
for library in "$1"/libcotangent{,_io,_image,_plugin}.a; do
  [ -f "$library" ] || continue
  # By relocations alone: a function has a section of its own, and disassembling takes ten times as long.
  found=$(objdump -r "$library" | awk '/^RELOCATION RECORDS FOR/ {name = $4; streams = 0}
    /_ZNSt8ios_base4InitC/ {streams = 1}  # of <iostream>, which CUDA brings
    /__cxa_(thread_)?atexit/ && !streams {print name}' | sed 's/^\[\.text\.\(startup\.\|unlikely\.\)\?//; s/\]:$//' | c++filt)
  at_thread_end=$((at_thread_end + $(grep -c '^ct::detail::at_thread_end(' <<<"$found")))
  if found=$(grep -v '^ct::detail::at_thread_end(\|^$' <<<"$found"); then
    printf '%s: objects with a destructor in\n%s\n' "$library" "$found"
    red=1
  fi
done
[ "$at_thread_end" = 1 ] || { echo "at_thread_end() was found $at_thread_end times"; red=1; }
exit $red
