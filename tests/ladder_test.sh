#!/usr/bin/env bash
# The ladders from the outside: verification, messages, and files.
#   usage: ladder_test.sh LADDER_PROGRAM
rungs=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../bench/ladders/rungs.py")
source "$(dirname "${BASH_SOURCE[0]}")/example_testing.sh" "$@"

expect 0 "every rung is right" "$program" --verify
says "^gemm on cpu: 6 rungs, verified$"
expect 0 "one wrong number of a result is seen, of every rung" "$program" --verify --spoil
expect 2 "an unknown flag" "$program" gemm --rungs 3
expect 2 "a number that is none" "$program" gemm --rung x
expect 1 "a rung that there is not" "$program" gemm --device cpu --rung 99
says "--rung is 99; gemm has the rungs 1 to 6"
kept=$(dirname "$rungs")/help.txt
"$program" --help >help.out
if grep -q " cuda: " help.out; then cp "$kept" wanted; else grep -v " cuda: " "$kept" >wanted; fi  # a build without CUDA lacks those
same wanted help.out "the help that is kept"
expect 0 "./ct ladder --help, without a build" "$(dirname "$rungs")/../../ct" ladder --help
same log "$kept" "and it is this help"
expect 2 "no name" "$program"
says "^  gemm +cpu: "
expect 1 "a ladder that there is not" "$program" rope
says "there is no ladder rope.*; ./ct ladder --help lists them"
expect 1 "a page without a place for the table" bash -c "echo text >page.md && '$program' gemm --device cpu --quick --write page.md"
says "page.md has no lines <!-- ladder gemm cpu --> and <!-- /ladder -->; "
printf 'before\n<!-- ladder gemm cpu -->\nold\n<!-- /ladder -->\nafter\n' >page.md
expect 0 "a page with one" "$program" gemm --device cpu --quick --threads 2 --write page.md
says "^4  registers +[0-9.]+ +[0-9.]+ +[0-9.]+% +[0-9.]+%  yes "
grep -q '^| 6 | threads | [0-9.]* | [0-9.]* | [0-9.]*% | [0-9.]*% | yes | ' page.md || fail "the table: $(cat page.md)"
grep -qE '2 threads, .*, commit .*, 20[0-9]{2}-[01][0-9]-[0-3][0-9]\.$' page.md || fail "the machine: $(cat page.md)"
! grep -q old page.md || fail "the old table is still there"
[ "$(head -n 1 page.md) $(tail -n 1 page.md)" = "before after" ] || fail "the text around the table: $(cat page.md)"
grep -q '<text .*>packing</text>' gemm_cpu_f32.svg || fail "the picture has no packing"
expect 0 "once more" "$program" gemm --device cpu --quick --write page.md
[ "$(grep -c '^<!--' page.md)" = 2 ] || fail "written twice: $(cat page.md)"
expect 0 "each rung beside the one before" python3 "$rungs" histogram --device cpu
says "^--- histogram on cpu, rung 2, tables: four tables"
says "^-void loops\(const Call& c\) \{"
says "^\+Counts tables_of\("
expect 1 "of a ladder that there is not" python3 "$rungs" rope
says "there is no ladder rope"
[ "$failures" = 0 ] && echo "all is well" || { echo "$failures failures"; exit 1; }
