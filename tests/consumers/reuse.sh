#!/usr/bin/env bash
# A compiler launcher that saves the consumers from compiling the library again. When the build tree in
# REUSE_TREE holds an object of the same source file, batch of files or generated text, compiled with the same flags and newer
# than the source, that object is taken; everything else, and what REUSE_NOT fits, is compiled.
set -euo pipefail

flags_of() {  # the flags that can change an object, one a line, sorted
  local skip=no word
  for word in "$@"; do
    if [ "$skip" = yes ]; then
      skip=no
      continue
    fi
    case $word in
      -o | -MF | -MT | -isystem | --param) skip=yes ;;  # --param: how much memory the compiler may use
      -include | -Xclang) skip=yes ;;  # these name precompiled headers
      -Wl,* | -Wa,* | -Wp,*) printf '%s\n' "$word" ;;
      -W* | -w) ;;  # warnings
      -c | -MD | -x | cu | -I* | -isystem=* | -fmacro-prefix-map=* | --options-file | -fpch-*) ;;
      -*) printf '%s\n' "$word" ;;
    esac
  done | sort
}

object="" source="" depfile="" batch=""
previous=""
for word in "$@"; do
  case $previous in
    -o) object=$word ;;
    -MF) depfile=$word ;;
  esac
  case $word in
    */CMakeFiles/cotangent*.dir/Unity/*.cxx) batch=$word source=$REUSE_TREE/CMakeFiles/${word##*/CMakeFiles/} ;;
    */batch.cu) batch=$word ;;
    */generated/*.cpp) batch=$word source=$REUSE_TREE/generated/${word##*/generated/} ;;
    "$REUSE_SOURCE"/*.cpp | "$REUSE_SOURCE"/*.cu) source=$word ;;
  esac
  previous=$word
done

built=$source.o
case $batch in
  "") [ -z "$source" ] || built=$(echo "$REUSE_TREE"/CMakeFiles/cotangent*.dir/"${source#"$REUSE_SOURCE"/}".o) ;;
  */generated/*) built=$(echo "$REUSE_TREE"/CMakeFiles/cotangent*.dir/"${source#"$REUSE_TREE"/}".o) ;;
  *.cu)
    source=${object##*/cotangent.dir/} source=$REUSE_TREE/${source%.o}
    built=$REUSE_TREE/CMakeFiles/cotangent.dir/${source#"$REUSE_TREE"/}.o
    ;;
esac

tree_less() { sed 's/^#include ".*\/generated\//#include "/' "$1"; }
usable() {  # usable OBJECT: made of what the sources are now
  [ -e "$1" ] || return 1
  [ -n "$batch" ] || { [ ! "$source" -nt "$1" ]; return; }
  # A generated file of the batch lies in each tree: it must say the same.
  local file
  for file in $(sed -n 's/^#include "\(.*\/generated\/.*\)"$/\1/p' "$batch"); do
    cmp -s "$file" "$REUSE_TREE/generated/${file##*/generated/}" || return 1
  done
  cmp -s <(tree_less "$batch") <(tree_less "$source") || return 1
  while read -r file; do
    [ ! "$file" -nt "$1" ] || return 1
  done < <(tree_less "$batch" | sed -n 's/^#include "\(.*\)"$/\1/p')
}

# shellcheck disable=SC2053  # a pattern
if [ -n "$source" ] && [ -n "$object" ] && [[ $source != ${REUSE_NOT:-} ]]; then
  if usable "$built"; then
    line=$(grep -F -e "-c $source\"" -e "-c $source -o" "$REUSE_TREE/compile_commands.json" | grep '"command"' | head -n 1 || true)
    line=${line#*\"command\": \"}
    line=${line%\",}
    line=${line//\\\"/\"}
    read -r -a words <<<"$line"
    if [ "$(flags_of "${words[@]}")" = "$(flags_of "$@")" ]; then
      cp "$built" "$object"
      [ -z "$depfile" ] || printf '%s: %s\n' "$object" "$source" >"$depfile"
      echo "$source" >>"$REUSE_LOG"
      exit 0
    fi
  fi
fi
exec "$@"
