#!/usr/bin/env bash
# The MNIST example from the outside: its output, files and exit codes.
#   usage: mnist_test.sh MNIST_PROGRAM
started=$SECONDS
source "$(dirname "${BASH_SOURCE[0]}")/example_testing.sh" "$@"
mnist=$program

figures() { cut -d, -f1-6 "$1"; }  # of metrics.csv, without times

small_images 1280 300
tiny=("$mnist" --data data --device cpu --hidden 32,16 --batch 64)

# --- command line ---
expect 0 "--help" "$mnist" --help
says "--epochs.*20"
says "256,256"
says "--device.*auto"
for wrong in "--epochs 0" "--batch x" "--lr -1" "--optimizer lion" "--schedule never" "--device tpu" "--seed -1" \
  "--hidden 0" "--dropout 1" "--drawn --data data" "--nonsense" "--lr nan" "--lr inf" \
  "--weight-decay nan" "--dropout nan" "--momentum nan" "--seed 18446744073709551616"; do
  expect 2 "wrong command line: $wrong" "$mnist" $wrong
done

help_is_kept
expect 2 "an unknown flag" "$mnist" --epoch 1
says "^unknown flag --epoch; did you mean --epochs\?$"
expect 2 "an argument that is no flag" "$mnist" five
says "^unknown command five; "

for flag in --data --out --resume --json; do expect 2 "an empty argument: $flag ''" "$mnist" $flag ""; done
if [ -e /dev/full ]; then
  "$mnist" --help >/dev/full 2>log
  [ $? = 1 ] && echo "ok: stdout is full" || fail "a full stdout: not exit code 1"
  one_line_error
fi

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
expect 0 "zeros in front of numbers" "$mnist" --data data --device cpu --hidden 032,016 --epochs 01 --seed 08 --out zeros
[ "$(grep -cE '"(seed": 8,|epochs": 1,|hidden": \[32, 16\])' zeros/config.json)" = 3 ] || fail "settings: $(cat zeros/config.json)"
expect 0 "the same with two threads" "${tiny[@]}" --epochs 2 --threads 2 --out two
same one/checkpoint-last.safetensors two/checkpoint-last.safetensors "one and two threads train alike"
checked "a run" "${tiny[@]}" --epochs 2 --threads 1 --out three
same one/checkpoint-last.safetensors three/checkpoint-last.safetensors "captured and plain steps train alike"
expect 0 "only the t10k files" bash -c "mkdir test && cp data/t10k* test && '$mnist' --data test --epochs 1 --hidden 8 --out t10k"
says "240 to train on, 60 to test"
expect 0 "digits drawn by the program" "$mnist" --drawn --epochs 1 --hidden 32 --out drawn --json drawn.json
says "drawn, not handwritten"
grep -qE '"test_accuracy": (0\.[89]|1)' drawn.json || fail "drawn digits: $(cat drawn.json); 0.8 is wanted"
expect 0 "one batch is learned by heart" "${tiny[@]}" --hidden 128 --dropout 0 --overfit-batch --out overfit
says "loss 0.00(0|100)"
says "^learned by heart in [0-9]+ steps: forward, backward and optimizer work$"
says "^model .* on cpu \([0-9]+ threads?\)"

# --- what a trained network is used for ---
best=$(cut -d, -f5 one/metrics.csv | tail -n +2 | sort -g | tail -n 1)
expect 0 "eval" "$mnist" eval --run one --json eval.json
says "^test accuracy [0-9.]+%, loss [0-9.]+, of 300 images"
awk -v a="$best" -v b="$(sed 's/.*"test_accuracy": \([0-9.]*\).*/\1/' eval.json)" 'BEGIN { exit !(a - b < 1e-4 && b - a < 1e-4) }' ||
  fail "eval: $(cat eval.json); $best is wanted"
expect 0 "convolutions" "$mnist" --model cnn --data data --device cpu --hidden 8 --epochs 1 --out cnn --threads 1
expect 0 "the same with two threads" "$mnist" --model cnn --data data --device cpu --hidden 8 --epochs 1 --out cnn2 --threads 2
same cnn/checkpoint-last.safetensors cnn2/checkpoint-last.safetensors "one and two threads convolve alike"
expect 1 "a perceptron in the place of convolutions" "$mnist" --resume cnn --model mlp
one_line_error
expect 0 "predict a test image" "$mnist" predict --run cnn --index 3
says "^test image 3, which is: 3$"
says "^ *[0-9.]+%  [0-9]$"
{ printf 'P5\n# a comment\n28 28\n255\n'; idx_images 1 2000 | tail -c 784; } >image.pgm
expect 0 "predict a picture" "$mnist" predict --run cnn --image image.pgm
grep '%  ' log >picture.log
expect 0 "which is the first test image" "$mnist" predict --run cnn --index 0
grep '%  ' log | cmp -s - picture.log || fail "the same pixels, another answer: $(cat log picture.log)"
{ printf 'P2\n56 14\n15\n'; yes 7 | head -n 784; } >wide.pgm
expect 0 "of another size, dark on light" "$mnist" predict --run one --image wide.pgm --invert
for wrong in "predict --run one" "predict --run one --index 1 --image image.pgm" "eval" "eval --run one --epochs 3"; do
  expect 2 "wrong command line: $wrong" "$mnist" $wrong
done
head -c 500 image.pgm >cut.pgm
for wrong in "--image cut.pgm" "--image eval.json" "--image absent" "--index 300"; do
  expect 1 "predict $wrong" "$mnist" predict --run one $wrong
  one_line_error
done
help_is_kept eval
help_is_kept predict

# --- the folder of a run ---
# config.json says what was used, and --resume takes it from there.
for setting in '"program": "mnist"' '"version": "[0-9.]+"' '"commit": "[0-9a-z-]+"' '"compiler": ".*Release' '"threads": 1' \
  '"device": "cpu"' "\"data\": \"$PWD/data\"" '"data-hash": "1280:[0-9]+ 300:[0-9]+"' '"weight-decay": 0' \
  '"command": "mnist --data data .*--out one' '"started": "20[0-9-]+T[0-9:]+Z"'; do
  grep -qE "^  $setting" one/config.json || fail "config.json lacks $setting: $(cat one/config.json)"
done
cp -r one again
expect 0 "resumed with the settings of its folder" "$mnist" --resume again --epochs 3
says "^changed +--epochs: was 2, now 3"
expect 0 "and with others" "$mnist" --resume again --lr 0.05 --batch 64 --epochs 4
says "^changed +--lr: was 0.001, now 0.05"
! grep -q "changed.*batch" log || fail "the batch has not changed"
grep -q '"lr": 0.05,' again/config.json && grep -q '"hidden": \[32, 16\],' again/config.json || fail "settings: $(cat again/config.json)"
[ "$(wc -l <again/history.jsonl)" = 3 ] && tail -n 1 again/history.jsonl | grep -q '"lr": {"from": 0.001, "to": 0.05}' ||
  fail "history: $(cat again/history.jsonl)"
for flag in "--optimizer sgd" "--hidden 8" "--batch 32" "--dropout 0"; do
  expect 1 "a checkpoint of another kind: $flag" "$mnist" --resume one $flag
  one_line_error
  says "${flag% *} is .*${flag#* }.*, the run one has "
done
# The form that earlier versions wrote.
cat >again/config.json <<OLD
{
  "data": "data",
  "drawn": false,
  "device": "auto",
  "epochs": 4,
  "batch": 64,
  "lr": 0.001,
  "optimizer": "adam",
  "schedule": "cosine",
  "weight_decay": 0.25,
  "momentum": 0.9,
  "dropout": 0.3,
  "hidden": [32, 16],
  "seed": 42,
  "threads": 1,
  "overfit_batch": false
}
OLD
expect 0 "a run of an earlier version" "$mnist" --resume again --epochs 5
grep -q '"weight-decay": 0.25' again/config.json || fail "settings: $(cat again/config.json)"
# Killed before the first checkpoint, or between the first two: one of --out and --resume goes on, and is named.
mkdir early && cp one/config.json early
expect 1 "killed before its first checkpoint" "$mnist" --resume early
one_line_error
says "begin it again with --out early$"
expect 0 "and begun again" "${tiny[@]}" --epochs 2 --out early
same early/checkpoint-last.safetensors one/checkpoint-last.safetensors "it ends as the whole one"
sed 's/"mnist"/"gpt"/' one/config.json >early/config.json
expect 1 "a run of gpt to resume" "$mnist" --resume early
one_line_error
says "early is a run of gpt; "
expect 1 "a run of gpt in the place of --out" "${tiny[@]}" --out early
one_line_error
says "early is a run of gpt; choose another --out"
expect 0 "resumed into another folder" "${tiny[@]}" --epochs 3 --resume one --out moved
[ "$(cut -d, -f1 moved/metrics.csv | xargs)" = "epoch 1 2 3" ] || fail "metrics: $(cat moved/metrics.csv)"
[ -s moved/checkpoint-best.safetensors ] || fail "the best checkpoint was left behind"
echo 1000 >moved/seconds.txt
expect 0 "resumed later" "${tiny[@]}" --epochs 4 --resume moved
says "after 4 epochs in 100[0-9.]+ s"
! grep -q "not what this run" log || fail "the images have not changed"
mkdir data2 && cp data/* data2 && idx_images 1280 9000 | gzip >data2/train-images-idx3-ubyte.gz
expect 0 "resumed with other images" "$mnist" --data data2 --device cpu --hidden 32,16 --batch 64 --epochs 5 --resume moved
says "^note +not what this run has learned from: .*data2"
kept=("$mnist" --drawn --device cpu --hidden 32 --schedule constant --out older)
expect 0 "an epoch" "${kept[@]}" --epochs 1
cp older/checkpoint-last.safetensors older/early.safetensors
expect 0 "and more of them" "${kept[@]}" --epochs 4 --resume older
cp older/checkpoint-best.safetensors best.saved
expect 0 "resumed from an older checkpoint" "${kept[@]}" --epochs 2 --lr 1e-4 --resume older/early.safetensors
same older/checkpoint-best.safetensors best.saved "a better checkpoint stays"
cp -r moved moved.before
expect 1 "fewer epochs than were made" "${tiny[@]}" --epochs 4 --resume moved
one_line_error
says "moved/checkpoint-last.safetensors has made 5 epochs .*--epochs 4; "
expect 2 "one batch of a run to resume" "${tiny[@]}" --overfit-batch --resume moved
diff -r moved moved.before && echo "ok: and both change nothing" || fail "the run was changed"
rm moved/checkpoint-last.safetensors
expect 1 "a run in its place" "${tiny[@]}" --out moved
says "moved holds a run already.*; go on with it \(--resume moved\)"
expect 0 "only the best checkpoint is there" "${tiny[@]}" --resume moved
says "^resumed +moved/checkpoint-best.safetensors"
mkdir other && echo '{"model_type": "gpt2"}' >other/config.json
expect 1 "a run in a folder of something else" "${tiny[@]}" --out other
one_line_error
expect 1 "weights break at the last step of an epoch" "$mnist" --data data --device cpu --hidden 32 --batch 1280 --optimizer sgd --lr 1e30 --epochs 1 --out breaks
says "test loss after epoch 1 is not a number.*--lr"
[ ! -e breaks/checkpoint-last.safetensors ] || fail "a checkpoint of broken weights was written"

expect 1 "losses that are large" "$mnist" --drawn --device cpu --lr 1e10 --epochs 1 --out large
says "test loss after epoch 1 is not a number; .*('[a-z_]+'|\(add_\)).*; try a lower --lr"

# --- interrupt and resume ---
long=("${tiny[@]}" --hidden 512,512 --epochs 30 --threads 1)
expect 0 "an uninterrupted run" "${long[@]}" --out whole
# start COMMAND...: in the background. A background job of a shell without job control ignores SIGINT; the
# program installs its own handler.
start() {
  "$@" >log 2>&1 </dev/null &
  pid=$!
}
finish() {  # sets `status`
  status=0
  wait "$pid" 2>/dev/null || status=$?
}
# until_true SECONDS CONDITION...: false if it never holds or the program ends first.
until_true() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] && kill -0 "$pid" 2>/dev/null || return 1
    sleep 0.005
  done
}
epochs_done() { [ "$(cat "$1/metrics.csv" 2>/dev/null | wc -l)" -gt "$2" ]; }
ends_as_whole() {  # ends_as_whole FOLDER WHAT
  same "$1/checkpoint-last.safetensors" whole/checkpoint-last.safetensors "$2: ends with the same bits"
  same "$1/checkpoint-best.safetensors" whole/checkpoint-best.safetensors "$2: the best one too"
  [ "$(figures "$1/metrics.csv")" = "$(figures whole/metrics.csv)" ] && echo "ok: $2: so do its metrics" ||
    fail "$2: metrics differ: $(diff <(figures "$1/metrics.csv") <(figures whole/metrics.csv))"
}

start "${long[@]}" --out broken
until_true 60 epochs_done broken 3 || fail "no three epochs in a minute, or the program ended"
sleep 0.03
kill -INT "$pid"
finish
[ "$status" = 130 ] && echo "ok: SIGINT ends with 130" || fail "SIGINT: exit code $status; 130 is wanted"
says "interrupted: saved; go on with --resume broken"
[ "$(wc -l <broken/metrics.csv)" -lt 31 ] || fail "the run was over before the signal"
cp -r broken half
expect 1 "no more epochs, in the middle of the next one" "${long[@]/%30/$(($(wc -l <half/metrics.csv) - 1))}" --resume half
one_line_error
expect 0 "resumed" "${long[@]}" --resume broken
says "^resumed .*epoch"
ends_as_whole broken "SIGINT and resumed"

# A run that is killed while it writes a checkpoint, again and again, has one to go on with each time. The
# first kill comes when there is a checkpoint at all.
start "${long[@]}" --out killed
until_true 60 epochs_done killed 2 || fail "no two epochs in a minute, or the program ended"
writing() { compgen -G "killed/.checkpoint*.tmp" >/dev/null; }
kills=0 during=0
for delay in 0 0.002 0.005 0.01 0.02 0 0 0 0 0 0 0; do
  [ "$kills" -lt 6 ] || [ "$during" = 0 ] || break  # on a busy machine it takes more to hit one
  until_true 60 writing || break
  sleep "$delay"
  kill -KILL "$pid"
  finish
  [ "$status" = 137 ] || break
  kills=$((kills + 1))
  ! writing || during=$((during + 1))
  start "${long[@]}" --resume killed
done
finish
[ "$status" = 0 ] && echo "ok: killed $kills times, $during of them within a checkpoint" || fail "resumed after SIGKILL: $status"
[ "$during" -gt 0 ] || fail "no kill hit a checkpoint being written"
ends_as_whole killed "SIGKILL and resumed"
! compgen -G "killed/.*.tmp" >/dev/null || fail "temporary files are left: $(ls -A killed)"

# The second SIGINT doesn't wait for the step, which takes seconds here.
start "$mnist" --drawn --device cpu --hidden 2048,2048 --batch 10000 --threads 1 --out twice
until_true 60 test -s twice/config.json
kill -INT "$pid"
sleep 0.2
kill -0 "$pid" 2>/dev/null || fail "one SIGINT ended the program within 0.2 s: too fast for this test"
since=${EPOCHREALTIME/[.,]/}
kill -INT "$pid"
finish
took=$(((${EPOCHREALTIME/[.,]/} - since) / 1000))
[ "$status" = 130 ] && [ "$took" -lt 1500 ] && [ ! -e twice/checkpoint-last.safetensors ] &&
  echo "ok: a second SIGINT ends at once, with 130 (after $took ms)" ||
  fail "two SIGINT: exit code $status after $took ms; 130 at once and no checkpoint are wanted"

# --- what goes wrong ---
expect 1 "the loss is no number" "${tiny[@]}" --optimizer sgd --lr 1e30 --epochs 1 --out nan
says "not a number.*\[[a-z_]+\]|not a number.*(linear|cross_entropy|relu)"
says "lower --lr"
[ ! -e nan/checkpoint-last.safetensors ] || fail "a checkpoint of broken weights was written"
[ -s nan/config.json ] || fail "no run folder"

# Memory: a limit on addresses is a machine without more (a GPU's driver wants more of them than there is memory).
if [ ! -e /dev/nvidiactl ]; then
  expect 1 "out of memory: the layers" bash -c \
    "ulimit -v 2000000 && exec '$mnist' --data data --device cpu --threads 1 --hidden 1000000 --out oom"
  says "^mnist: \[allocator\] out of memory on cpu: requested .*; "
  says "smaller --batch \(now 128\) or smaller --hidden"
  expect 1 "out of memory: the batch" bash -c \
    "ulimit -v 600000 && exec '$mnist' --data data --device cpu --threads 1 --hidden 40000 --batch 1280 --out oom"
  says "smaller --batch \(now 1280\) or smaller --hidden"
fi

# A disk without room: nothing is lost, and the run goes on once there is room.
expect 1 "a limit on the size of files" bash -c "ulimit -f 200 && exec \"\$@\"" - "${tiny[@]}" --epochs 1 --out limited
says "^mnist: \[save\] can't write '.*checkpoint-(last|best).*': .*; "
! compgen -G "limited/.*.tmp" >/dev/null || fail "temporary files are left"
on_a_small_disk() {  # resumes the interrupted run on a full disk, then on one with room
  trap 'umount "$work/disk"' EXIT
  mount -t tmpfs -o size=40m small "$work/disk" && cp -r "$work/half" "$work/disk/run" || exit 77
  head -c 100M /dev/zero >"$work/disk/filler" 2>/dev/null
  "$@" --resume "$work/disk/run"
  local got=$?
  cmp "$work/disk/run/checkpoint-last.safetensors" "$work/half/checkpoint-last.safetensors" || exit 3
  compgen -G "$work/disk/run/.*.tmp" && exit 4
  rm "$work/disk/filler"
  "$@" --resume "$work/disk/run" >"$work/log2" 2>&1 || exit 5
  cmp "$work/disk/run/checkpoint-last.safetensors" "$work/whole/checkpoint-last.safetensors" || exit 6
  exit $got
}
export -f on_a_small_disk
export work
mkdir disk
spaces=(unshare --mount)
"${spaces[@]}" true 2>/dev/null || spaces+=(--map-root-user)
status=0
"${spaces[@]}" bash -c 'on_a_small_disk "$@"' - "${long[@]}" >log 2>&1 </dev/null || status=$?
if [ "$status" = 77 ] || grep -q unshare log; then
  echo "skipped: a full disk (a small one can't be mounted here)"
else
  [ "$status" = 1 ] && echo "ok: a full disk" || fail "a full disk: $status; 1 is wanted"
  says "^mnist: \[save\] can't write '.*': No space left on device; free some space"
fi

# --- bad input ---
expect 1 "no such folder" "$mnist" --data absent --out x
one_line_error
mkdir cut && cp data/* cut && head -c 9000 data/train-images-idx3-ubyte.gz >cut/train-images-idx3-ubyte.gz
expect 1 "truncated gzip" "$mnist" --data cut --out x
one_line_error
cp data/train-images-idx3-ubyte.gz cut && head -c 1000 data/t10k-images-idx3-ubyte >cut/t10k-images-idx3-ubyte
expect 1 "truncated raw file" "$mnist" --data cut --out x
one_line_error
cp data/t10k-images-idx3-ubyte cut
{ be32 2049; be32 1280; labels 1279; printf '\x0a'; } >cut/train-labels-idx1-ubyte
expect 1 "a label out of range" "$mnist" --data cut --out x
one_line_error
says "the label 10; ten classes"
idx_labels 1279 >cut/train-labels-idx1-ubyte
expect 1 "an image without a label" "$mnist" --data cut --out x
one_line_error
{ be32 2051; be32 2147483647; be32 28; be32 28; } >cut/t10k-images-idx3-ubyte
cp data/train-labels-idx1-ubyte cut
expect 1 "a header that promises more than there is" "$mnist" --data cut --out x
one_line_error
echo "this is no image" >cut/t10k-images-idx3-ubyte
expect 1 "a file of another kind" "$mnist" --data cut --out x
one_line_error
[ ! -e x ] || fail "a run folder was made for data that can't be read"
expect 1 "an unwritable folder" "${tiny[@]}" --out /proc/self/fdinfo
one_line_error
says "/proc/self/fdinfo"
expect 1 "a result that can't be written" "${tiny[@]}" --epochs 100000 --out x --json absent/result.json
one_line_error
expect 1 "a result in the place of a folder" "${tiny[@]}" --epochs 100000 --out x --json data
expect 1 "a run folder below a file" "${tiny[@]}" --out one.json/run
one_line_error
expect 1 "nothing to resume" "${tiny[@]}" --resume absent
one_line_error
head -c 5000 one/checkpoint-last.safetensors >one/cut.safetensors
expect 1 "a truncated checkpoint" "${tiny[@]}" --resume one/cut.safetensors --out x
one_line_error
expect 1 "a checkpoint of another model" "${tiny[@]}" --hidden 8 --resume one --out x
ln -s loop loop
for flags in "--data loop" "--resume loop" "--drawn --out loop"; do
  expect 1 "a link to itself: $flags" "$mnist" $flags
  one_line_error
done
if [ ! -e /dev/nvidiactl ]; then
  expect 1 "no GPU" "$mnist" --data data --device cuda --out x
  one_line_error
  says "built without CUDA; build it with: ./ct mnist --cuda|no GPU that can be used"
elif "$mnist" --drawn --device cuda --epochs 1 --out gpu >log 2>&1; then  # where cuBLAS is not, only what needs it fails
  COTANGENT_CUBLAS=/no/such.so expect 1 "no cuBLAS" "$mnist" --drawn --device cuda --epochs 1 --out x
  says "^mnist: \[cublas\] .*can't be loaded: /no/such.so: .*COTANGENT_CUBLAS"
  COTANGENT_CUBLAS=libm.so.6 expect 1 "another library" "$mnist" --drawn --device cuda --epochs 1 --out x
  says "\[cublas\] libm.so.6 has no cublasLtCreate; "
fi

[ "$failures" = 0 ] && echo "all is well, in $((SECONDS - started)) s" || { echo "$failures failures"; exit 1; }
