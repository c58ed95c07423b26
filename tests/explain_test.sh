#!/usr/bin/env bash
# The example that explains a step: its table, its files, and that it can be read for GPT-2.
#   usage: explain_test.sh PROGRAM
source "$(dirname "${BASH_SOURCE[0]}")/example_testing.sh" "$@"

help_is_kept
expect 2 "an unknown flag" "$program" --nonsense
expect 1 "an unknown network" "$program" nothing
one_line_error
says "there is no network 'nothing'"
touch file
expect 1 "a folder that can't be made" "$program" mnist --out file/new --batch 2 --device cpu
one_line_error
says "file/new"
expect 0 "a folder that is not there is made" "$program" mnist --out absent/new --batch 2 --device cpu
[ -s absent/new/explain.html ] && [ -s absent/new/explain.dot ] || fail "nothing in absent/new"

expect 0 "a perceptron" "$program" mnist --batch 4 --device cpu
says "^# +op +result +keeps +bytes +\|g\| +forward us +% of limit +backward us +formula +gradients go to$"
says "^8 +cross_entropy .* +1 +[0-9.]+ +[0-9.]+ +[0-9.]+ +y = reduce"
says "^8 nodes, 6 leaves; .* kept; backward visits 8 7 6 5 4 3 2 1$"
says "^most memory: .* in the backward of 1 "
[ -s explain.dot ] && grep -q "n8 -> n7" explain.dot || fail "no explain.dot, or no edge in it"

# Memory counted from shapes equals the allocator's, but for workspace.
mib() { awk -v unit="$2" -v n="$1" 'BEGIN { print n * (unit == "GiB" ? 1024 : unit == "KiB" ? 1 / 1024 : 1) }'; }
read -r number unit < <(sed -n 's/^most memory: \([0-9.]*\) \([A-Z][a-zA-Z]*\) .*/\1 \2/p' log)
seen=$(sed -n 's/^a step as it is takes at most \([0-9.]*\) MiB.*/\1/p' log)
awk -v a="$(mib "$number" "$unit")" -v b="$seen" 'BEGIN { exit !(a > 0.85 * b && a < 1.05 * b) }' && echo "ok: memory" ||
  fail "counted $number $unit, seen $seen MiB"

expect 0 "GPT-2" "$program" gpt --width 64 --length 16 --vocabulary 200 --device cpu
says "^--- transformer.h.11$"
says "^\.\.\. transformer.h.10 to transformer.h.1: 10 times the same, nodes 191 to 22, "
[ "$(wc -l <log)" -lt 60 ] || fail "$(wc -l <log) lines for GPT-2"
expect 0 "with less kept" "$program" gpt --width 64 --length 16 --vocabulary 200 --layers 3 --recompute --device cpu
says "recompute .*computed again on the way back"
[ "$failures" = 0 ]
