#!/usr/bin/env bash
# No static or thread_local object of the library has a destructor: code that runs while the process or a thread ends would
# find it destroyed. Per-thread objects are per_thread()'s (core/per_thread.h), whose one call is the only one there may be.
#   usage: statics.sh BUILD_DIR
set -uo pipefail
red=0 at_thread_end=0
for library in "$1"/libcotangent{,_io,_image,_plugin}.a; do
  [ -f "$library" ] || continue
  found=$(objdump -drC --no-show-raw-insn "$library" | awk '/^[0-9a-f]+ <.*>:$/ {name = substr($0, 18)}
    /^[0-9a-f]+ <.*>:$/ {streams = 0}
    /R_.*ios_base::Init/ {streams = 1}  # of <iostream>, which CUDA brings
    /R_.*__cxa_(thread_)?atexit/ && !streams {print name}')
  at_thread_end=$((at_thread_end + $(grep -c '^<ct::detail::at_thread_end(' <<<"$found")))
  if found=$(grep -v '^<ct::detail::at_thread_end(\|^$' <<<"$found"); then
    printf '%s: objects with a destructor in\n%s\n' "$library" "$found"
    red=1
  fi
done
[ "$at_thread_end" = 1 ] || { echo "at_thread_end() was found $at_thread_end times"; red=1; }
exit $red
