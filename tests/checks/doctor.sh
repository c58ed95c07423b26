#!/usr/bin/env bash
# ./ct doctor says whether a build has code for the GPU that is there, and a program for a GPU that is not there is not
# built. The GPU is made up.
#   usage: doctor.sh SOURCE_DIR
set -euo pipefail
source=${1:?source folder}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/build/cuda" "$work/examples"
cp "$source/ct" "$work/ct"

row() {  # row CAPABILITY LIST: the doctor's line
  printf '#!/bin/sh\n[ "$1" = -L ] && echo "GPU 0: A GPU" || echo "A GPU, %s"\n' "$1" >"$work/bin/nvidia-smi"
  chmod +x "$work/bin/nvidia-smi"
  printf '%s' "$2" >"$work/build/cuda/cuda-architectures.txt"
  (PATH=$work/bin:$PATH "$work/ct" doctor || true) | grep '^  built'
}
failed=0
expect() {  # expect WORDS CAPABILITY LIST
  local got
  got=$(row "$2" "$3")
  case $got in
    *"$1"*) ;;
    *)
      echo "GPU $2, built for $3: got \"$got\", want \"$1\""
      failed=1
      ;;
  esac
}
expect "has code for this GPU" 8.6 "80-real;90a-real"
expect "has code for this GPU" 9.0 "80-virtual"
expect "has code for this GPU" 12.0 "80-real;90-virtual"
expect "has no code for this GPU; rebuild with -DCOTANGENT_CUDA_ARCHITECTURES=86-real" 8.6 "90a-real"
expect "ARCHITECTURES=90a-real" 9.0 "80-real;86-real"
expect "ARCHITECTURES=100a-real" 10.0 "90a-virtual"
expect "oldest architecture that is supported" 7.5 "80-virtual"

printf '#!/bin/sh\nexit 9\n' >"$work/bin/nvidia-smi"
if ! compgen -G '/proc/driver/nvidia/gpus/*' >/dev/null; then
  mkdir -p "$work/examples/mnist" && touch "$work/examples/mnist/main.cpp"
  for flag in --device=cuda "--device cuda" "--device cuda:1"; do
    # shellcheck disable=SC2086  # one word, or two
    got=$(PATH=$work/bin:$PATH "$work/ct" mnist $flag 2>&1) && got="exit 0: $got"
    case $got in
      "ct: "*": no NVIDIA GPU is on this machine; choose --device cpu"*) ;;
      *)
        echo "mnist $flag without a GPU: $got"
        failed=1
        ;;
    esac
  done
fi
exit $failed
