# For the tests of examples from the outside: source it with the program as argument. Moves to a folder that goes when
# the test ends.
set -uo pipefail
program=$(readlink -f "${1:?the program}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

fail() {
  echo "FAIL: $*"
  [ ! -s log ] || sed 's/^/  | /' log | tail -n 12
  failures=$((failures + 1))
}
# expect STATUS WHAT COMMAND...: runs it with its output in ./log.
expect() {
  local want=$1 what=$2 got=0
  shift 2
  timeout 300 "$@" >log 2>&1 </dev/null || got=$?
  [ "$got" = "$want" ] && echo "ok: $what" || fail "$what: exit code $got; $want is wanted"
}
says() { grep -qaE -- "$1" log || fail "the output lacks '$1'"; }
# An error is one line of the form "mnist: [op] what is wrong; what to do".
one_line_error() {
  says "^$(basename "$program"): \[[A-Za-z0-9_:]+\] .*; "
  [ "$(wc -l <log)" = 1 ] || fail "more than one line of error"
}
same() { cmp -s "$1" "$2" && echo "ok: $3" || fail "$3: $1 and $2 differ"; }
