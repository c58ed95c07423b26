#!/usr/bin/env bash
# core/gdb.py shows tensors, shapes, handles and lists.
#   usage: gdb.sh SOURCE_DIR PROGRAM
set -euo pipefail
command -v gdb >/dev/null || { echo "skipped: there is no gdb" && exit 77; }
prints=()
for name in x turned part half low none large mask leaf storage list shape; do
  prints+=(-ex "echo $name\\n" -ex "output $name" -ex "echo \\n")
done
got=$(gdb -batch -nx -ex "source $1/core/gdb.py" -ex "break stop" -ex run -ex up "${prints[@]}" "$2" 2>&1)
failed=0
shows() {  # shows NAME TEXT
  grep -A1 -x "$1" <<<"$got" | grep -qF -- "$2" || {
    echo "$1: got \"$(grep -A1 -x "$1" <<<"$got" | tail -n 1)\", want \"$2\""
    failed=1
  }
}
shows x 'f32[2, 3] on cpu, strides [3, 1] = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}'
shows turned 'f32[3, 2] on cpu, strides [1, 3] = {1.0, 4.0, 2.0, 5.0, 3.0, 6.0}'
shows part 'f32[2, 2] on cpu, strides [3, 1], offset 1 = {2.0, 3.0, 5.0, 6.0}'
shows half 'f16[2, 3] on cpu, strides [3, 1] = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}'
shows low 'bf16[2, 2] on cpu, strides [2, 1] = {2.0, 3.0, 5.0, 6.0}'
shows none 'undefined tensor'
shows large '30, 31, 68 more}'
shows mask 'bool[2, 3] on cpu, strides [3, 1] = {False, False, True, True, True, True}'
shows leaf 'f32[2] on cpu, strides [1], requires grad = {1.0, 1.0}'
shows storage 'ct::Storage at 0x'
shows list '3 elements = {7, 8, 9}'
shows shape '[2, 3]'
exit $failed
