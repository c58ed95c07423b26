#!/usr/bin/env bash
# examples/mnist/fetch_mnist.sh against a server on this machine that fails in the ways mirrors do.
#   usage: fetch_mnist_test.sh SOURCE_DIR
set -uo pipefail
source=$(readlink -f "${1:?source folder}")
for tool in python3 curl sha256sum; do
  command -v $tool >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$work"' EXIT
cd "$work" || exit 1
unset http_proxy HTTP_PROXY all_proxy ALL_PROXY
failures=0

fail() {
  echo "FAIL: $*"
  [ ! -s log ] || sed 's/^/  | /' log
  [ ! -s requests ] || sed 's/^/  > /' requests
  failures=$((failures + 1))
}

# Two files: one of several cuts, one that arrives in one piece.
mkdir content
head -c 90000 /dev/urandom >content/images.gz
head -c 5000 /dev/urandom >content/labels.gz
MNIST_FILES="
images.gz $(sha256sum content/images.gz | cut -d' ' -f1)
labels.gz $(sha256sum content/labels.gz | cut -d' ' -f1)
"
export MNIST_FILES
python3 "$source/tests/flaky_server.py" content port requests &
server=$!
for ((i = 0; i < 500; ++i)); do
  [ -s port ] && break
  sleep 0.02
done
[ -s port ] || { echo "FAIL: the server did not start"; exit 1; }
base=http://127.0.0.1:$(cat port)

# fetch STATUS DIR MIRROR...: with its output in ./log and the requests it makes in ./requests.
fetch() {
  local want=$1 dir=$2 mirrors="" got=0
  shift 2
  for mirror in "$@"; do
    case $mirror in http:*) mirrors+=" $mirror" ;; *) mirrors+=" $base/$mirror" ;; esac
  done
  : >requests
  MNIST_MIRRORS=$mirrors timeout 60 "$source/examples/mnist/fetch_mnist.sh" "$dir" >log 2>&1 || got=$?
  [ "$got" = "$want" ] || fail "$dir from $*: exit code $got; $want is wanted"
}
complete() {
  cmp -s content/images.gz "$1/images.gz" && cmp -s content/labels.gz "$1/labels.gz" &&
    [ "$(ls -A "$1" | wc -l)" = 2 ] && echo "ok: $2" || fail "$2: $(ls -lA "$1")"
}
asked() { [ "$(cat requests)" = "$(printf '%s\n' "$@")" ] || fail "these requests are wanted: $*"; }
says() { grep -qE -- "$1" log || fail "the output lacks '$1'"; }

fetch 0 plain good missing
complete plain "from the first mirror"
asked "/good/images.gz -" "/good/labels.gz -"
says "images.gz: from $base/good"
fetch 0 plain good
complete plain "there already"
asked ""
says "images.gz: there already"
printf x | dd of=plain/images.gz bs=1 seek=70000 conv=notrunc status=none
fetch 0 plain good
complete plain "a damaged file is fetched again, the other is not"
asked "/good/images.gz -"

fetch 0 order missing broken http://127.0.0.1:9 good
complete order "mirrors without the file are passed over"
asked {"/missing/images.gz","/broken/images.gz","/good/images.gz","/missing/labels.gz","/broken/labels.gz","/good/labels.gz"}" -"
fetch 0 cut cut
complete cut "a connection that breaks off, again and again"
asked "/cut/images.gz -" "/cut/images.gz bytes="{20000,40000,60000,80000}- "/cut/labels.gz -"
fetch 0 once once
complete once "a server that can't continue starts over"
fetch 0 other stuck good
complete other "what one mirror began, another continues"
says "images.gz: from $base/good"
grep -qx "/good/images.gz bytes=20000-" requests || fail "it was not continued"
fetch 0 wrong wrong good
complete wrong "a mirror with other bytes is passed over"
[ "$(grep -c /wrong/images.gz requests)" = 1 ] || fail "wrong bytes are fetched once"
mkdir part long
head -c 30000 /dev/zero >part/images.gz.part
fetch 0 part good
complete part "a part of something else is started over"
head -c 99999 /dev/zero >long/images.gz.part
fetch 0 long good
complete long "a part that is longer than the file is started over"
mkdir whole
cp content/images.gz whole/images.gz.part
fetch 0 whole missing good
complete whole "a part that is the whole file needs no server"
grep -q images requests && fail "it was fetched again"

fetch 1 none missing wrong
[ -z "$(ls -A none)" ] && echo "ok: bytes that don't check leave no file" || fail "left: $(ls -A none)"
says "^fetch_mnist: no mirror gave images.gz"
says "MNIST_MIRRORS"
cp -r plain old
printf x | dd of=old/labels.gz bs=1 seek=700 conv=notrunc status=none
cp -r old before
fetch 1 old wrong
diff -r old before >/dev/null && echo "ok: and replace none" || fail "the folder has changed"
fetch 1 half stuck
[ "$(stat -c %s half/images.gz.part)" = 20000 ] && echo "ok: what arrived is kept" || fail "left: $(ls -lA half)"
says "half/images.gz.part"
fetch 0 half good
complete half "and continued by the next run"
asked "/good/images.gz bytes=20000-" "/good/labels.gz -"
fetch 1 port/below good
says "^fetch_mnist: "
mkdir full
ln -s /dev/full full/images.gz.part
fetch 1 full good
says "^fetch_mnist: can't write full/images.gz.part; is the disk full"
fetch 1 gone http://127.0.0.1:9
says "^fetch_mnist: no mirror gave images.gz"

[ "$failures" = 0 ] && echo "all is well" || { echo "$failures failures"; exit 1; }
