# Functions for the tests of examples from the outside: source it with the program as argument. Moves to a folder that
# goes when the test ends.
set -uo pipefail
program=$(readlink -f "${1:?the program}")
here=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")")
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
# checked WHAT COMMAND...: its steps are captured, and each second replay is compared with a plain step, bit by bit.
checked() { expect 0 "$1, captured and checked" env COTANGENT_CHECK_CAPTURE=2 "${@:2}"; }
says() { grep -qaE -- "$1" log || fail "the output lacks '$1'"; }
# An error is one line of the form "mnist: [op] what is wrong; what to do", without [op] where it is the program's own.
one_line_error() {
  local name
  name=$(basename "$program")
  says "^$name: (\[[A-Za-z0-9_:]+\] )?[^[].*; "
  ! grep -qa "^$name: \[$name\]" log || fail "the program names itself twice"
  [ "$(wc -l <log)" = 1 ] || fail "more than one line of error"
}
same() { cmp -s "$1" "$2" && echo "ok: $3" || fail "$3: $1 and $2 differ"; }
# The text that ./ct shows without building anything is what the program says, of a subcommand too.
help_is_kept() {  # help_is_kept [SUBCOMMAND]
  local name source
  name=$(basename "$program")
  source=$(readlink -f "$here/..")
  "$program" "$@" --help >help.out
  same help.out "$source/examples/$name/help${1:+-$1}.txt" "the help that is kept: ${1:-$name}"
  rm -rf clone && mkdir clone && cp "$source/ct" clone && cp -r "$source/examples" clone
  expect 0 "./ct $name $* --help" clone/ct "$name" "$@" --help
  same log help.out "and it is this help"
  [ ! -e clone/build ] || fail "something was built or installed for it"
}
# --- a small image set: bytes of the program as pixels, labels in turn ---
be32() { printf "\\x$(printf %02x $(($1 >> 24 & 255)))\\x$(printf %02x $(($1 >> 16 & 255)))\\x$(printf %02x $(($1 >> 8 & 255)))\\x$(printf %02x $(($1 & 255)))"; }
labels() { for ((i = 0; i < $1; ++i)); do printf "\\x0$((i % 10))"; done; }
idx_images() { be32 2051; be32 "$1"; be32 28; be32 28; tail -c +"$2" "$program" | head -c $(($1 * 784)); }
idx_labels() { be32 2049; be32 "$1"; labels "$1"; }
small_images() {  # small_images TRAIN TEST: in the folder data
  mkdir data
  idx_images "$1" 4000 | gzip >data/train-images-idx3-ubyte.gz
  idx_labels "$1" >data/train-labels-idx1-ubyte
  idx_images "$2" 2000 >data/t10k-images-idx3-ubyte
  idx_labels "$2" | gzip >data/t10k-labels-idx1-ubyte.gz
}
# The settings in a config.json: without what differs from call to call.
settings_of() { grep -vE '"(started|command|threads)": ' "$1/config.json"; }
