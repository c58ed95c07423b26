#!/usr/bin/env bash
# The MNIST example from the outside: what it prints, leaves behind and returns.
#   usage: mnist_test.sh MNIST_PROGRAM
set -uo pipefail
mnist=$(readlink -f "${1:?the program}")
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
  "$@" >log 2>&1 </dev/null || got=$?
  [ "$got" = "$want" ] && echo "ok: $what" || fail "$what: exit code $got; $want is wanted"
}
says() { grep -qE -- "$1" log || fail "the output lacks '$1'"; }
# An error is one line of the form "mnist: [op] what is wrong; what to do".
one_line_error() {
  says "^mnist: \[[A-Za-z_]+\] .*; "
  [ "$(wc -l <log)" = 1 ] || fail "more than one line of error"
}
same() { cmp -s "$1" "$2" && echo "ok: $3" || fail "$3: $1 and $2 differ"; }
figures() { cut -d, -f1-6 "$1"; }  # of metrics.csv, without times

# --- a small image set: bytes of the program as pixels, labels in turn ---
be32() { printf "\\x$(printf %02x $(($1 >> 24 & 255)))\\x$(printf %02x $(($1 >> 16 & 255)))\\x$(printf %02x $(($1 >> 8 & 255)))\\x$(printf %02x $(($1 & 255)))"; }
labels() { for ((i = 0; i < $1; ++i)); do printf "\\x0$((i % 10))"; done; }
idx_images() { be32 2051; be32 "$1"; be32 28; be32 28; tail -c +"$2" "$mnist" | head -c $(($1 * 784)); }
idx_labels() { be32 2049; be32 "$1"; labels "$1"; }
mkdir data
idx_images 1280 4000 | gzip >data/train-images-idx3-ubyte.gz
idx_labels 1280 >data/train-labels-idx1-ubyte
idx_images 300 2000 >data/t10k-images-idx3-ubyte
idx_labels 300 | gzip >data/t10k-labels-idx1-ubyte.gz
tiny=("$mnist" --data data --device cpu --hidden 32,16 --batch 64)

# --- command line ---
expect 0 "--help" "$mnist" --help
says "--epochs.*12"
says "--hidden.*512"
says "--device.*auto"
for wrong in "--epochs 0" "--batch x" "--lr -1" "--optimizer lion" "--schedule never" "--device tpu" "--seed -1" \
  "--hidden 0" "--dropout 1" "--drawn --data data" "--nonsense"; do
  expect 2 "wrong command line: $wrong" "$mnist" $wrong
done

# --- a run and its folder ---
expect 0 "a run" "${tiny[@]}" --epochs 2 --threads 1 --out one --json one.json
says "test accuracy"
for file in config.json metrics.csv loss.svg misclassified.svg checkpoint-last.safetensors checkpoint-best.safetensors; do
  [ -s "one/$file" ] || fail "the run folder lacks $file"
done
for key in dataset test_accuracy seconds samples_per_s device params; do
  grep -q "\"$key\": " one.json || fail "--json lacks $key"
done
grep -q '"params": 25818[,}]' one.json || fail "--json: $(cat one.json); 25818 parameters are wanted"
[ "$(wc -l <one/metrics.csv)" = 3 ] || fail "metrics.csv has not a line for each of two epochs"
expect 0 "the same with two threads" "${tiny[@]}" --epochs 2 --threads 2 --out two
same one/checkpoint-last.safetensors two/checkpoint-last.safetensors "one and two threads train alike"
expect 0 "only the t10k files" bash -c "mkdir test && cp data/t10k* test && '$mnist' --data test --epochs 1 --hidden 8 --out t10k"
says "240 to train on, 60 to test"
expect 0 "digits drawn by the program" "$mnist" --drawn --epochs 1 --hidden 32 --out drawn --json drawn.json
says "drawn, not handwritten"
grep -qE '"test_accuracy": (0\.[89]|1)' drawn.json || fail "drawn digits: $(cat drawn.json); 0.8 is wanted"
expect 0 "one batch is learned by heart" "${tiny[@]}" --hidden 128 --dropout 0 --overfit-batch --out overfit
says "loss 0.00(0|100)"

# --- interrupt and resume ---
long=("${tiny[@]}" --hidden 512,512 --epochs 40 --threads 1)
expect 0 "an uninterrupted run" "${long[@]}" --out whole
interrupt() {  # interrupt FOLDER EPOCHS SIGNALS: once that many epochs are done, and a little later
  "${long[@]}" --out "$1" >log 2>&1 </dev/null &
  local pid=$! i
  for ((i = 0; i < 600; ++i)); do
    [ "$(cat "$1/metrics.csv" 2>/dev/null | wc -l)" -gt "$2" ] && break
    sleep 0.02
  done
  sleep 0.03
  kill -INT "$pid"
  [ "$3" = 1 ] || kill -INT "$pid"
  status=0
  wait "$pid" || status=$?
}
# A background job of a shell without job control ignores SIGINT; the program installs its own handler.
interrupt broken 3 1
[ "$status" = 130 ] && echo "ok: SIGINT ends with 130" || fail "SIGINT: exit code $status; 130 is wanted"
says "interrupted: saved; go on with --resume broken"
[ "$(wc -l <broken/metrics.csv)" -lt 41 ] || fail "the run was over before the signal"
expect 0 "resumed" "${long[@]}" --resume broken
says "^resumed .*epoch"
same broken/checkpoint-last.safetensors whole/checkpoint-last.safetensors "a resumed run ends as the uninterrupted one"
[ "$(figures broken/metrics.csv)" = "$(figures whole/metrics.csv)" ] && echo "ok: and so do its metrics" ||
  fail "metrics of the resumed run differ: $(diff <(figures broken/metrics.csv) <(figures whole/metrics.csv))"
interrupt twice 1 2
[ "$status" = 130 ] && echo "ok: two SIGINT end with 130" || fail "two SIGINT: exit code $status; 130 is wanted"

# --- what goes wrong ---
expect 1 "the loss is no number" "${tiny[@]}" --optimizer sgd --lr 1e30 --epochs 1 --out nan
says "not a number.*\[[a-z_]+\]|not a number.*(linear|cross_entropy|relu)"
says "lower --lr"
[ ! -e nan/checkpoint-last.safetensors ] || fail "a checkpoint of broken weights was written"
expect 1 "no such folder" "$mnist" --data absent --out x
one_line_error
mkdir cut && cp data/* cut && head -c 9000 data/train-images-idx3-ubyte.gz >cut/train-images-idx3-ubyte.gz
expect 1 "truncated gzip" "$mnist" --data cut --out x
one_line_error
cp data/train-images-idx3-ubyte.gz cut && head -c 1000 data/t10k-images-idx3-ubyte >cut/t10k-images-idx3-ubyte
expect 1 "truncated raw file" "$mnist" --data cut --out x
one_line_error
expect 1 "a run folder below a file" "${tiny[@]}" --out one.json/run
one_line_error
expect 1 "nothing to resume" "${tiny[@]}" --resume absent
one_line_error
head -c 5000 one/checkpoint-last.safetensors >cut.safetensors
expect 1 "a truncated checkpoint" "${tiny[@]}" --resume cut.safetensors --out x
one_line_error
expect 1 "a checkpoint of another model" "${tiny[@]}" --hidden 8 --resume one --out x
if [ ! -e /dev/nvidiactl ]; then
  expect 1 "no GPU" "$mnist" --data data --device cuda --out x
  one_line_error
fi

[ "$failures" = 0 ] && echo "all is well" || { echo "$failures failures"; exit 1; }
