#!/usr/bin/env bash
# The smallest example: its error for a folder without images, and that it learns.
#   usage: first_test.sh PROGRAM
set -euo pipefail
first=${1:?program}
fashion=/usr/share/datasets/fashion-mnist

if text=$("$first" /nowhere 2>&1); then
  echo "a folder that is not there is no error"
  exit 1
fi
grep -q "/nowhere" <<<"$text" || {
  echo "the message does not name the folder: $text"
  exit 1
}
if [ ! -e "$fashion/train-images-idx3-ubyte.gz" ]; then
  echo "skipped: Fashion-MNIST is not installed (apt install dataset-fashion-mnist)"
  exit 77
fi
# A level of the processor that the library has no kernels for is refused by the first op.
if text=$(COTANGENT_CPU=v9 "$first" "$fashion" 2>&1); then
  echo "COTANGENT_CPU=v9 is no error"
  exit 1
fi
grep -q 'COTANGENT_CPU is "v9"; this library has kernels for: ' <<<"$text" || {
  echo "the message does not say which levels there are: $text"
  exit 1
}
text=$("$first" "$fashion")
awk '$1 == "epoch" && $2 == 2 { found = $4 } END { exit !(found > 0.83) }' <<<"$text" || {
  echo "it has not learned: $text"
  exit 1
}
echo "$text"
