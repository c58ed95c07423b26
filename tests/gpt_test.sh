#!/usr/bin/env bash
# The GPT example from the outside: its output, files and exit codes.
#   usage: gpt_test.sh GPT_PROGRAM
source "$(dirname "${BASH_SOURCE[0]}")/example_testing.sh" "$@"
gpt=$program

figures() { cut -d, -f1-5 "$1"; }  # of metrics.csv, without times
bytes() { for byte in "$@"; do printf "\\x$(printf %02x "$byte")"; done; }
word() { bytes $(($1 & 255)) $(($1 >> 8 & 255)) $(($1 >> 16 & 255)) $(($1 >> 24 & 255)); }
# npy DESCR SHAPE: the header of an array, 128 bytes
npy() {
  printf '\x93NUMPY\x01\x00\x76\x00'
  printf '%-117s\n' "{'descr': '$1', 'fortran_order': False, 'shape': ($2), }"
}
# numbers N...: 64-bit integers
numbers() { for n in "$@"; do word "$n" && word 0; done; }

# A text with a rule in it: counting in words.
words=(zero one two three four five six seven eight nine)
for ((i = 0; i < 3000; ++i)); do printf '%s ' "${words[i % 10]}" && ((i % 10 != 9)) || printf '\n'; done >text
tiny=("$gpt" --preset tiny --text text --device cpu)

# --- command line ---
expect 0 "--help" "$gpt" --help
says "--layers.*default 4"
says "generate"
says "--preset.*"
says "default auto"
expect 0 "generate --help" "$gpt" generate --help
says "--temperature.*default 0.8"
help_is_kept
for command in generate logits export tokenize; do help_is_kept $command; done
expect 2 "an unknown flag" "$gpt" --text x --iter 5
says "^unknown flag --iter; did you mean --iters\?$"
expect 2 "an unknown flag of a subcommand" "$gpt" generate --checkpoint x --temprature=1
says "^unknown flag --temprature; did you mean --temperature\?$"
expect 2 "an unknown command" "$gpt" generat
says "^unknown command generat; did you mean generate\?$"
for wrong in "--iters 0" "--batch x" "--lr -1" "--model rnn" "--device tpu" "--seed -1" "--dropout 1" "--dtype f8" \
  "--text a --tokens b" "--nonsense" "generate" "generate --checkpoint x --top-p 0" "nonsense" "logits --model x" \
  "--minutes -1" "--fused-loss maybe" "--ema nan" "--min-lr nan" "--min-lr inf" "--val-fraction nan" "--beta2 nan" \
  "--seed 18446744073709551616" "generate --checkpoint x --top-p nan" "--val-tokens a" "--vocab 3" "--kv-heads 3"; do
  expect 2 "wrong command line: $wrong" "$gpt" $wrong
done

expect 2 "a number out of range" "$gpt" --lr -1
says "^--lr: .*more than 0"
expect 2 "a number too large" "$gpt" --layers 2199023255552
says "^--layers: .*1 to 2\^40"

for flag in "" --text --tokens --out --resume "generate --checkpoint"; do  # a variable that was not set
  expect 2 "an empty argument: $flag ''" "$gpt" $flag ""
done
if [ -e /dev/full ]; then
  "$gpt" --help >/dev/full 2>log
  [ $? = 1 ] && echo "ok: stdout is full" || fail "a full stdout: not exit code 1"
  one_line_error
fi
"$gpt" --help >&- 2>log
[ $? = 1 ] && echo "ok: stdout is closed" || fail "a closed stdout: not exit code 1"
one_line_error
(set +o pipefail; "$gpt" --help 2>log | head -n 1 >first) && [ ! -s log ] && echo "ok: a reader that has gone" ||
  fail "a reader that has gone"

# --- a run and its folder ---
expect 0 "a run" "${tiny[@]}" --threads 1 --out one
says "^data .*text: .* vocabulary 17"
says "^step 200 .*validation loss [0-9.]+"
says "^step 0 .*\(a guess would be ln 17 = 2\.83\)"
[ "$(grep -c '^--- step .* bytes ---$' one/samples.txt)" = 4 ] || fail "samples: $(cat one/samples.txt)"
[ "$(grep -c '^---$' log)" = 8 ] || fail "there is not a sample of text after each of four evaluations"
for file in config.json tokenizer.json metrics.csv loss.svg checkpoint-last.safetensors checkpoint-best.safetensors; do
  [ -s "one/$file" ] || fail "the run folder lacks $file"
done
[ "$(wc -l <one/metrics.csv)" = 6 ] || fail "metrics.csv has not a line for each of five evaluations"
grep -q '^0,nan,2.[0-9]*,' one/metrics.csv || fail "no loss before the first step: $(cat one/metrics.csv)"
[ "$(head -n 1 one/metrics.csv)" = step,train_loss,val_loss,lr,grad_norm,tokens_per_s,seconds ] ||
  fail "metrics.csv has other columns: $(head -n 1 one/metrics.csv)"
if command -v script >/dev/null; then  # on a terminal: a line of progress that is written again and again
  expect 0 "progress on a terminal" script -qec "$gpt --preset tiny --text text --device cpu --iters 400 --out shown" /dev/null
  tr '\r' '\n' <log >lines
  mv lines log
  says "^step [0-9]+/400 \[[#.]+\] +[0-9]+%  loss [0-9.]+  lr [0-9.e-]+  norm [0-9.]+  [0-9.]+k tok/s  [0-9]+ MiB  ETA [0-9]+:[0-9]+"
fi
if command -v script >/dev/null && command -v stty >/dev/null; then
  expect 0 "a narrow terminal" script -qec "stty cols 80; $gpt --preset tiny --text text --device cpu --out narrow" /dev/null
  tr '\r' '\n' <log | grep -a "/200 .*%" >lines
  cp lines log
  says "^step [0-9]+/200 +[0-9]+%  loss"
  awk '{ gsub(/\033\[K/, "") } length > 79 { exit 1 }' lines || fail "lines of progress wrap"
fi
awk -F, 'NR == 2 { first = $3 } END { exit !($3 < first && $3 < 1.7) }' one/metrics.csv ||
  fail "the loss does not fall: $(cut -d, -f3 one/metrics.csv | xargs)"
expect 0 "the same with two threads" "${tiny[@]}" --threads 2 --out two
same one/checkpoint-last.safetensors two/checkpoint-last.safetensors "one and two threads train alike"
expect 0 "zeros in front of numbers" "${tiny[@]}" --seed 010 --batch 08 --iters 02 --sample 0 --out zeros
[ "$(grep -cE '"(seed": 10|batch": 8|iters": 2),' zeros/config.json)" = 3 ] || fail "settings: $(cat zeros/config.json)"
expect 0 "llama" "${tiny[@]}" --model llama --heads 4 --kv-heads 2 --iters 50 --out llama
expect 0 "without validation text" "${tiny[@]}" --val-fraction 0 --iters 10 --out noval
for dtype in bf16 f16 pure-bf16 pure-f16; do
  expect 0 "--dtype $dtype" "${tiny[@]}" --dtype $dtype --out "$dtype"
  awk -F, 'END { exit !($3 < 1.8) }' "$dtype/metrics.csv" || fail "$dtype: $(tail -n 1 "$dtype/metrics.csv")"
done
expect 0 "--fused-loss false" "${tiny[@]}" --fused-loss false --out unfused
awk -F, -v a="$(tail -n 1 one/metrics.csv | cut -d, -f3)" 'END { d = $3 - a; exit !(d < 1e-3 && d > -1e-3) }' unfused/metrics.csv ||
  fail "output layer and loss as two ops: $(tail -n 1 unfused/metrics.csv)"
expect 0 "--recompute" "${tiny[@]}" --recompute --out recomputed
same recomputed/checkpoint-last.safetensors one/checkpoint-last.safetensors "recomputed blocks train alike"
expect 0 "the project's own text" "$gpt" --preset tiny --device cpu --iters 5 --val-fraction 0 --out own
says "sources of this project.* 0 to evaluate on"
expect 0 "accumulated" "${tiny[@]}" --batch 4 --accumulate 2 --iters 50 --out accumulated

# --- token files ---
bytes 1 0 2 0 3 0 >short.bin
{ for ((i = 0; i < 600; ++i)); do bytes $((i % 50)) 0; done; } >raw.bin
{ word 20240520 && word 1 && word 600 && head -c 1012 /dev/zero && cat raw.bin; } >llmc.bin
for file in raw llmc; do
  expect 0 "token file $file.bin" "$gpt" --preset tiny --device cpu --tokens $file.bin --vocab 64 --iters 20 --out "tokens-$file"
done
same tokens-raw/checkpoint-last.safetensors tokens-llmc/checkpoint-last.safetensors "with and without llm.c's header"
expect 0 "a validation file" "$gpt" --preset tiny --device cpu --tokens raw.bin --val-tokens llmc.bin --vocab 64 --iters 10 --out validated
expect 0 "tokenize" "$gpt" tokenize --tokenizer one --text text --out text.bin --decoded text.back
same text text.back "decoded as it was"
expect 0 "a file of one's own tokens" "$gpt" --preset tiny --device cpu --tokens text.bin --tokenizer one --iters 20 --out retold

# --- interrupt and resume ---
interrupt() {  # interrupt FOLDER COMMAND...: once there is a line of metrics, and a little later
  local folder=$1 pid i
  shift
  "$@" --out "$folder" >log 2>&1 </dev/null &
  pid=$!
  for ((i = 0; i < 600; ++i)); do
    [ "$(cat "$folder/metrics.csv" 2>/dev/null | wc -l)" -gt 2 ] && break
    sleep 0.02
  done
  sleep 0.1
  kill -INT "$pid"
  status=0
  wait "$pid" || status=$?
}
long=("${tiny[@]}" --iters 300 --eval-interval 30 --lr 0.006 --dropout 0.1 --accumulate 3 --threads 1 --sample 0)
expect 0 "an uninterrupted run" "${long[@]}" --out whole
# A background job of a shell without job control ignores SIGINT; the program installs its own handler.
for ((try = 0; try < 10; ++try)); do  # until it is between two batches of a step
  rm -rf broken
  interrupt broken "${long[@]}"
  grep -qaE "after [12] of the next one's 3 batches" log && break
done
[ "$status" = 130 ] && echo "ok: SIGINT ends with 130" || fail "SIGINT: exit code $status; 130 is wanted"
says "interrupted at step [0-9]+ of 300, after [12] of the next one's 3 batches: saved; go on with --resume broken"
[ "$(wc -l <broken/metrics.csv)" -lt 12 ] || fail "the run was over before the signal"
cp -r broken mid
expect 0 "resumed, with the settings of its folder" "$gpt" --resume broken
says "^resumed .*step"
same broken/checkpoint-last.safetensors whole/checkpoint-last.safetensors "a resumed run ends as the uninterrupted one"
same <(settings_of broken) <(settings_of whole) "and has its settings"
[ "$(figures broken/metrics.csv)" = "$(figures whole/metrics.csv)" ] && echo "ok: and its metrics" ||
  fail "metrics of the resumed run differ: $(diff <(figures broken/metrics.csv) <(figures whole/metrics.csv))"
# A step of seconds, and a signal in the middle of it: the first one waits for its end, the second one does not.
signals() {  # signals SIGNAL...
  local pid i signal
  "${tiny[@]}" --embd 256 --batch 256 --threads 1 --eval-batches 1 --out "slow-$#" >log 2>&1 </dev/null &
  pid=$!
  for ((i = 0; i < 600; ++i)); do grep -qa '^step 0 ' log && break || sleep 0.02; done
  for signal in "$@"; do sleep 0.05 && kill "-$signal" "$pid"; done
  status=0
  wait "$pid" || status=$?
}
signals HUP
[ "$status" = 130 ] && echo "ok: SIGHUP ends with 130" || fail "SIGHUP: exit code $status; 130 is wanted"
says "interrupted at step [0-9]+ of 200, after 1 of the next one's 1 batch: saved"
signals INT INT INT INT  # two that wait for a process that is not let run are one
[ "$status" = 130 ] && echo "ok: two SIGINT end with 130" || fail "two SIGINT: exit code $status; 130 is wanted"
! grep -qa saved log || fail "the second SIGINT did not end the run at once"
# Where there is nothing to save, the first signal ends the program. A pipe without a writer keeps it waiting.
mkfifo pipe
"$gpt" tokenize --tokenizer one --text pipe --out x.bin &
sleep 0.1
kill -TERM $!
sleep 0.1
kill -KILL $! 2>/dev/null
wait $! 2>/dev/null
[ $? = 143 ] && echo "ok: SIGTERM ends tokenize" || fail "SIGTERM does not end tokenize"
# The clock, again and again: a part of the run at a time.
expect 0 "a run of limited time" "${long[@]}" --minutes 0.005 --out parts
says "^time is up at step [0-9]+ of 300.*: saved; go on with --resume parts"
for ((try = 0; try < 3; ++try)); do expect 0 "a part of the run" "$gpt" --resume parts --minutes 0.005; done
expect 0 "and the rest, without a limit" "$gpt" --resume parts
same parts/checkpoint-last.safetensors whole/checkpoint-last.safetensors "a run in parts ends as the whole one"
same <(settings_of parts) <(settings_of whole) "and has its settings"
expect 1 "fewer steps than were made" "$gpt" --resume parts --iters 10
one_line_error
says "--iters 10"

# SIGKILL at any moment, while checkpoints are written nearly all the time.
often=("${tiny[@]}" --iters 60 --eval-interval 2 --eval-batches 1 --dropout 0.1 --accumulate 2 --sample 0 --ema 0.9)
expect 0 "a run that saves often" "${often[@]}" --out often
rm -rf killed
kills=0
for ((try = 0; try < 12; ++try)); do
  resume=()
  [ ! -e killed/checkpoint-last.safetensors ] || resume=(--resume killed)
  "${often[@]}" --out killed "${resume[@]}" >log 2>&1 </dev/null &
  # A busy machine may take long to the first checkpoint, without which there is nothing to resume.
  for ((i = 0; i < 3000; ++i)); do [ -e killed/checkpoint-last.safetensors ] && break || sleep 0.02; done
  sleep "0.0$((2 + try % 7))"
  kill -KILL $! 2>/dev/null && kills=$((kills + 1))
  wait $! 2>/dev/null
done
[ "$kills" -gt 3 ] || fail "only $kills runs were there to be killed"
expect 0 "resumed after $kills kills" "$gpt" --resume killed
same killed/checkpoint-last.safetensors often/checkpoint-last.safetensors "a run that was killed ends as one that was not"
same killed/checkpoint-best.safetensors often/checkpoint-best.safetensors "and its best checkpoint is the same"

# A full disk: the last checkpoint stays, and the run goes on from there.
cp -r often full
(
  failures=0
  ulimit -f 64
  expect 1 "no room for a checkpoint" "$gpt" --resume full --iters 70
  says "can't write 'full/checkpoint-.*; "
  exit "$failures"
) || failures=$((failures + 1))
same full/checkpoint-last.safetensors often/checkpoint-last.safetensors "the last checkpoint is still there"
# The best checkpoint can't be written once; it is made up for.
cp -r often blocked
expect 0 "two steps more" "$gpt" --resume often --iters 62
rm blocked/checkpoint-best.safetensors
mkdir -p blocked/checkpoint-best.safetensors/x
expect 1 "no best checkpoint" "$gpt" --resume blocked --iters 62
rm -r blocked/checkpoint-best.safetensors
expect 0 "resumed once it can be written" "$gpt" --resume blocked --iters 62
same blocked/checkpoint-best.safetensors often/checkpoint-best.safetensors "the best checkpoint is not forgotten"
rm blocked/checkpoint-best.safetensors
expect 0 "resumed at its end, without a best one" "$gpt" --resume blocked
says "^done: 62 steps in [0-9:]+; blocked holds"
interrupt f16-broken "${long[@]}" --dtype f16
expect 0 "resumed in f16" "$gpt" --resume f16-broken
expect 0 "an uninterrupted run in f16" "${long[@]}" --dtype f16 --out f16-whole
same f16-broken/checkpoint-last.safetensors f16-whole/checkpoint-last.safetensors "and its scaler goes on too"

interrupt ema-broken "${long[@]}" --ema 0.99 --model llama
expect 0 "resumed with averages" "$gpt" --resume ema-broken
expect 0 "an uninterrupted run with averages" "${long[@]}" --ema 0.99 --model llama --out ema-whole
same ema-broken/checkpoint-last.safetensors ema-whole/checkpoint-last.safetensors "and they go on too"
expect 0 "writing with the averages" "$gpt" generate --checkpoint ema-whole --ema --prompt "one two" --temperature 0 --length 30
says "^one two three four five"

# --- the folder of a run ---
# One that goes on for a while beside the next tests.
"${tiny[@]}" --iters 10000000 --threads 1 --sample 0 --minutes 0.11 --out busy >busy.log 2>&1 </dev/null &
busy=$!
for ((i = 0; i < 600; ++i)); do [ -e busy/checkpoint-last.safetensors ] && break || sleep 0.02; done
for flag in --resume --out; do
  expect 1 "$flag with the folder of a run that is going on" "${tiny[@]}" --iters 10000000 $flag busy
  one_line_error
  says "another process is training in busy"
done
mkdir at-once && pids=()
for ((i = 0; i < 3; ++i)); do
  (cd at-once && exec "$gpt" --preset tiny --text ../text --device cpu --iters 1 --sample 0) >/dev/null 2>&1 &
  pids+=($!)
done
wait "${pids[@]}"
[ "$(ls -d at-once/runs/*/checkpoint-last.safetensors | wc -l)" = 3 ] &&
  echo "ok: runs that start at once have folders of their own" || fail "three runs left $(ls at-once/runs)"
mkdir hf weights && echo '{"model_type": "gpt2"}' >hf/config.json && echo >weights/model.safetensors
for folder in hf weights; do
  cp -r $folder saved
  expect 1 "a run in the folder of a model" "${tiny[@]}" --iters 1 --out $folder
  one_line_error
  diff -r $folder saved && rm -r saved || fail "the folder of a model was changed"
done
expect 1 "a model that can't be" "${tiny[@]}" --heads 3 --out never
[ ! -e never ] || fail "it leaves a folder"
expect 1 "a model that can't be, folders below each other" "${tiny[@]}" --heads 3 --out never/a/b
[ ! -e never ] || fail "it leaves a folder"
expect 1 "a folder whose name is too long" "${tiny[@]}" --out "never/$(printf 'x%.0s' {1..300})"
one_line_error
[ ! -e never ] || fail "it leaves a folder"
# A signal before anything is written. A full pipe for what it prints keeps the program there.
mkfifo printed && exec 3<>printed
dd if=/dev/zero of=printed bs=4096 count=1024 oflag=nonblock 2>/dev/null
"${tiny[@]}" --out never/a >printed 2>log </dev/null &
for ((i = 0; i < 600; ++i)); do [ -e never/a/.lock ] && break || sleep 0.02; done
pid=$!
kill -TERM $pid
cat printed >/dev/null 3>&- &
exec 3>&-
status=0
wait $pid 2>/dev/null || status=$?
[ "$status" = 130 ] && [ ! -e never ] && echo "ok: SIGTERM before anything is written" ||
  fail "SIGTERM before anything is written: exit code $status, left: $(find never)"

# The text that is learned changes.
cp text data.txt && mkdir sub
expect 0 "a text of its own" "$gpt" --preset tiny --text data.txt --device cpu --iters 10 --out learned
cp learned/tokenizer.json tokenizer.saved
expect 0 "resumed from another folder" env -C sub "$gpt" --resume ../learned --iters 12
! grep -qa "^note" log || fail "the text has not changed"
rev text >data.txt
expect 0 "resumed with another text of the same characters" "$gpt" --resume learned --iters 14
says "^note +not what this run has learned from, .*data.txt"
tr 'a-z' 'b-za' <text >data.txt
expect 1 "resumed with other characters" "$gpt" --resume learned --iters 16
one_line_error
says "the token [0-9]+ is '.*', in .*data.txt it is now '.*'; "
same learned/tokenizer.json tokenizer.saved "the tokenizer of a run stays"

# A link to a folder, and the one above that.
mkdir -p far/away && ln -s far/away link && cp text far/beyond.txt && rev text >beyond.txt
expect 0 "a text above a linked folder" "$gpt" --preset tiny --text link/../beyond.txt --device cpu --iters 5 --out linked
expect 0 "resumed with the same one" "$gpt" --resume linked --iters 6
! grep -qa "^note" log || fail "another text: $(grep '"text"' linked/config.json)"

# A run that breaks leaves its checkpoints as they were.
breaking=(--eval-interval 1 --lr 1e38 --clip 0 --schedule constant --sample 0)
cp -r one breaks && cp -r noval breaks-noval
expect 1 "weights break at the last step" "$gpt" --resume breaks --iters 201 "${breaking[@]}"
says "the checkpoints in breaks are from before"
same breaks/checkpoint-last.safetensors one/checkpoint-last.safetensors "the last checkpoint is the good one"
expect 1 "the same without validation" "$gpt" --resume breaks-noval --iters 11 "${breaking[@]}"
same breaks-noval/checkpoint-last.safetensors noval/checkpoint-last.safetensors "the last checkpoint is the good one"
expect 1 "weights break at the first step" "${tiny[@]}" "${breaking[@]}" --out breaks-first
says "there is no checkpoint yet"

# Elsewhere, and from the best checkpoint.
expect 0 "resumed into another folder" "$gpt" --resume one --out moved --iters 210 --eval-interval 5 --clip 0
[ "$(cut -d, -f1 moved/metrics.csv | xargs)" = "step 0 50 100 150 200 205 210" ] || fail "metrics: $(cat moved/metrics.csv)"
[ -s moved/checkpoint-best.safetensors ] || fail "the best checkpoint was left behind"
(  # room for the best checkpoint, and not for the last one, which has gradients too
  failures=0
  ulimit -f $(($(stat -c %s mid/checkpoint-best.safetensors) / 1024 + 1))
  expect 1 "no room for what is taken over" "$gpt" --resume mid --out roomless
  says "can't write 'roomless/checkpoint-last.*; "
  exit "$failures"
) || failures=$((failures + 1))
[ ! -e roomless ] || fail "a part of it stays: $(ls -A roomless)"
# Killed while it takes over. A pipe without a writer keeps it there.
cp -r one piped && rm piped/checkpoint-best.safetensors && mkfifo piped/checkpoint-best.safetensors
"$gpt" --resume piped --out half >log 2>&1 </dev/null &
for ((i = 0; i < 600; ++i)); do [ -e half/metrics.csv ] && break || sleep 0.02; done
sleep 0.1
kill -KILL $!
wait $! 2>/dev/null
[ -s half/config.json ] && [ -s half/tokenizer.json ] || fail "the settings do not come first: $(ls -A half)"
expect 0 "and taken over again" "$gpt" --resume one --out half --iters 201
norms=$(tail -n 2 moved/metrics.csv | cut -d, -f5 | uniq | wc -l)
[ "$norms" = 2 ] || fail "without --clip the norm of the gradient stays as it was"
expect 0 "no limit to the gradient" "${tiny[@]}" --clip 0 --iters 5 --out unclipped
awk -F, 'END { exit !($5 + 0 > 0) }' unclipped/metrics.csv || fail "no norm: $(cat unclipped/metrics.csv)"
cp -r one best-only && rm best-only/checkpoint-last.safetensors
expect 1 "a run in its place" "${tiny[@]}" --out best-only
says "best-only holds a run already.*; go on with it \(--resume best-only\)"
expect 0 "only the best checkpoint is there" "$gpt" --resume best-only
says "^resumed +best-only/checkpoint-best.safetensors"
expect 0 "resumed from the best checkpoint" "$gpt" --resume best-only/checkpoint-best.safetensors
# An older one, beside a best one that it can't know of.
expect 0 "a run that stops early" "${tiny[@]}" --iters 50 --out older
cp older/checkpoint-last.safetensors older/early.safetensors
expect 0 "and goes on" "$gpt" --resume older --iters 200
cp older/checkpoint-best.safetensors best.saved
expect 0 "resumed from its older checkpoint" "$gpt" --resume older/early.safetensors --iters 60 --eval-interval 5
same older/checkpoint-best.safetensors best.saved "a better checkpoint stays"

# Settings stored in a checkpoint.
alter() {  # alter CHECKPOINT SCRIPT: sed on its header, whose length stands in front; without its checksums
  local sum='"cotangent\.[a-z]*\.crc32":"\(\\.\|[^"\]\)*"'
  local length
  length=$(od -An -tu8 -N8 "$1" | tr -d ' ')
  tail -c +9 "$1" | head -c "$length" | sed "$2; s/,$sum//g; s/$sum,//g" >header
  { word "$(wc -c <header)" && word 0 && cat header && tail -c +$((length + 9)) "$1"; } >altered
  mv altered "$1"
}
cp -r one old && rm old/seconds.txt
alter old/checkpoint-last.safetensors 's/,\\"extra.\(accumulate\|data\)\\":[^,]*//g'
expect 0 "a checkpoint of an earlier version" "$gpt" --resume old --iters 210
cp -r one late && echo 1000 >late/seconds.txt
alter late/checkpoint-last.safetensors 's/extra.step\\":200/extra.step\\":1234560/'
expect 0 "many steps" "$gpt" --resume late --iters 1234569 --eval-interval 4
[ "$(cut -d, -f1 late/metrics.csv | tail -n 3 | xargs)" = "1234564 1234568 1234569" ] || fail "$(cat late/metrics.csv)"
says "^done: .* in 16:4"
awk -F, 'END { exit !($7 >= 1000) }' late/metrics.csv || fail "the seconds begin anew: $(tail -n 1 late/metrics.csv)"
cp -r one marred
sed -i '3s/^[0-9]*/nan/; 4s/^[0-9]*/1e300/' marred/metrics.csv
expect 0 "lines of metrics that are damaged" "$gpt" --resume marred --iters 201
[ "$(cut -d, -f1 marred/metrics.csv | xargs)" = "step 0 150 200 201" ] || fail "metrics: $(cat marred/metrics.csv)"
expect 1 "another number of batches in the middle of a step" "$gpt" --resume mid --accumulate 4
one_line_error
says "[123] of the 3 batches of a step"
for micro in -3 4 1000000000000000000; do
  cp -r mid damaged
  alter damaged/checkpoint-last.safetensors "s/extra.micro\\\\\":[123]/extra.micro\\\\\":$micro/"
  expect 1 "a checkpoint after $micro batches of 3" "$gpt" --resume damaged
  one_line_error
  says "steps and $micro of 3 batches"
  rm -r damaged
done

wait $busy && echo "ok: a run beside others" || fail "the run beside others"
cp busy.log log
says "^step [0-9]+/10000000 +[0-9]+%  loss"  # off a terminal every five seconds
[ ! -e busy/.lock ] || fail "the lock is left"

# --- writing ---
write=("$gpt" generate --checkpoint one --length 60)
expect 0 "generate" "${write[@]}" --prompt "one two" --seed 3
says "^one two"
cp log first
expect 0 "generate again" "${write[@]}" --prompt "one two" --seed 3
same log first "one seed, one text"
expect 0 "another seed" "${write[@]}" --prompt "one two" --seed 4
! cmp -s log first || fail "another seed writes the same text"
expect 0 "the most likely text" "$gpt" generate --checkpoint whole --prompt "one two" --temperature 0 --length 30
says "^one two three four five six seven"
expect 0 "top-k and top-p" "${write[@]}" --top-k 3 --top-p 0.9 --samples 2
says "^--- 2 ---"
expect 0 "longer than the model" "${write[@]}" --length 100 --prompt "$(head -c 200 text)"

# --- logits, and a model for others ---
expect 0 "export" "$gpt" export --checkpoint one --out exported
for file in config.json model.safetensors tokenizer.json tokenizer_config.json; do
  [ -s "exported/$file" ] || fail "the folder lacks $file"
done
cp one/config.json config.before
expect 1 "export into a run's folder" "$gpt" export --checkpoint llama --out one
one_line_error
same one/config.json config.before "and it is as it was"
cp -r exported unread && rm unread/tokenizer_config.json && mkdir unread/tokenizer_config.json
expect 1 "export with settings of a tokenizer that can't be read" "$gpt" export --checkpoint unread --out unread-model
one_line_error
[ ! -e unread-model ] || fail "a part of the model was exported"
expect 0 "export of a run without a tokenizer" "$gpt" export --checkpoint tokens-raw --out untold
says "no tokenizer"
[ -s untold/model.safetensors ] || fail "no model was exported"
{ npy '<i8' '2, 3' && numbers 1 2 3 4 5 6; } >ids.npy
expect 0 "logits of a run" "$gpt" logits --model one --tokens ids.npy --out run.npy
expect 0 "logits of the exported model" "$gpt" logits --model exported --tokens ids.npy --out exported.npy
says "f32\[2, 3, 17\]"
[ -s run.npy ] || fail "no logits"
{ npy '<i8' '3,' && numbers 1 2 3; } >row.npy
expect 0 "logits of one sequence" "$gpt" logits --model one --tokens row.npy --out row.out.npy
says "f32\[3, 17\]"
expect 0 "it writes text as well" "$gpt" generate --model exported --prompt "one" --length 10
# A model from elsewhere whose tokenizer puts token 4, g, before each text, and one whose config.json alone knows it.
characters='{"\n":0," ":1,"e":2,"f":3,"g":4,"h":5,"i":6,"n":7,"o":8,"r":9,"s":10,"t":11,"u":12,"v":13,"w":14,"x":15,"z":16}'
tokenizer_of() { echo "{\"post_processor\": $1, \"model\": {\"type\": \"BPE\", \"vocab\": $characters, \"merges\": []}}"; }
cp -r exported begun
tokenizer_of null >exported/tokenizer.json
tokenizer_of '{"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "g"}}, {"Sequence": {"id": "A"}}],
  "special_tokens": {"g": {"ids": [4]}}}' >begun/tokenizer.json
written() { "$gpt" generate --model "$1" --prompt "$2" --length 40 --temperature 2 2>&1; }
[ "g$(written begun one)" = "$(written exported gone)" ] && echo "ok: a text begins with the tokenizer's token" ||
  fail "g and $(written begun one) is not $(written exported gone)"
prompt=$(head -c 99 text | tr '\n' ' ') && end=${prompt: -31}  # the model has 32 positions
next() { "$gpt" generate --model "$1" --prompt "$2" --length 1 --samples 200 --temperature 9 2>&1 | sed "s/^$2//"; }
[ "$(next begun "$prompt")" = "$(next exported "g$end")" ] && echo "ok: so does one longer than the model" ||
  fail "$(next begun "$prompt" | xargs) is not $(next exported "g$end" | xargs)"
sed -i 's/"bos_token_id": *[a-z0-9]*/"bos_token_id": 4/' exported/config.json
[ "g$(written exported '')" = "$(written exported g)" ] && echo "ok: an empty text begins with the model's token" ||
  fail "g and $(written exported '') is not $(written exported g)"
# `transformers` gives a GPT-2 of any vocabulary the tokens 50256 to begin and to end with.
cp -r exported beyond
sed -i -E 's/"(bos|eos)_token_id": *(\[\]|[a-z0-9]+)/"\1_token_id": 50256/' beyond/config.json
[ "$(grep -c 50256 beyond/config.json)" = 2 ] || fail "config.json: $(cat beyond/config.json)"
expect 0 "an end token out of the vocabulary" "$gpt" generate --model beyond --prompt one --length 10
says "^one"
expect 0 "a begin token out of the vocabulary" "$gpt" generate --model beyond --length 10

# --- what goes wrong ---
expect 1 "the loss is no number" "${tiny[@]}" --lr 1e30 --clip 0 --iters 50 --out nan
says "not a number; .*(\[[a-z_]+\]|NaN)"
says "lower --lr"
[ "$(grep -c '' <(grep -a '^gpt:\|^  /' log))" = 1 ] || fail "addresses of code in the message"
[ ! -e nan/checkpoint-last.safetensors ] || fail "a checkpoint of broken weights was written"
expect 1 "no such text" "${tiny[@]}" --text absent --out x
one_line_error
expect 1 "a folder for a text" "${tiny[@]}" --text one --out x
one_line_error
says "one is a folder"
: >empty
expect 1 "an empty text" "${tiny[@]}" --text empty --out x
one_line_error
printf 'a short text' >brief
expect 1 "a text shorter than a window of the model" "${tiny[@]}" --text brief --out x
one_line_error
says "shorter block"
# Libraries for a GPU take more addresses than that before anything begins.
[ -e /dev/nvidiactl ] || ldd "$gpt" | grep -q cublas || (
  failures=0
  ulimit -v 600000
  expect 1 "out of memory" "${tiny[@]}" --batch 4000 --embd 256 --threads 1 --eval-batches 1 --out x
  says "out of memory on cpu: requested [0-9.]+ [MG]iB"
  says "^gpt: try a smaller --batch \(now 4000\) with a larger --accumulate \(now 1\), --recompute, a shorter --block \(now 32\), or --dtype bf16"
  exit "$failures"
) || failures=$((failures + 1))
printf 'abc\xff' >latin
expect 1 "a text that is not UTF-8" "${tiny[@]}" --text latin --out x
one_line_error
says "byte 3"
expect 1 "a text shorter than a window" "$gpt" --preset tiny --device cpu --tokens short.bin --out x
one_line_error
expect 1 "tokens out of range" "$gpt" --preset tiny --device cpu --tokens raw.bin --vocab 40 --out x
says "token 4[0-9] at position"
expect 1 "a validation file shorter than a window" "$gpt" --preset tiny --device cpu --tokens raw.bin --val-tokens short.bin --vocab 64 --out x
one_line_error
says "--val-tokens short.bin has 3 tokens"
head -c 999 raw.bin >odd.bin
expect 1 "half a token" "$gpt" --preset tiny --tokens odd.bin --out x
one_line_error
head -c 1500 llmc.bin >cut.bin
expect 1 "a truncated token file" "$gpt" --preset tiny --tokens cut.bin --out x
one_line_error
expect 1 "heads that do not divide" "${tiny[@]}" --heads 3 --out x
one_line_error
says "--heads 3"
expect 1 "shared heads that do not divide" "${tiny[@]}" --model llama --heads 4 --kv-heads 3 --out x
one_line_error
expect 1 "odd heads of llama" "${tiny[@]}" --model llama --heads 2 --embd 30 --out x
one_line_error
expect 1 "a run folder below a file" "${tiny[@]}" --out text/run
one_line_error
cp -r one kept
expect 1 "a run in the place of another" "${tiny[@]}" --out kept
one_line_error
says "kept holds a run already"
expect 1 "a resumed run in the place of another" "$gpt" --resume one --out kept
says "kept holds a run already"
diff -r one kept || fail "a run was written over"
expect 1 "nothing to resume" "$gpt" --resume absent
one_line_error
for flag in "--layers 3" "--embd 16" "--heads 4" "--ema 0.9" "--dtype pure-bf16" "--preset char" "--batch 4"; do
  expect 1 "a checkpoint of another kind: $flag" "$gpt" --resume one $flag --out x
  one_line_error
  says "${flag% *} is ${flag#* }, the run one has [a-z0-9]+; "
done
small=(--layers 1 --embd 16 --block 16 --batch 4 --eval-interval 1 --eval-batches 1 --sample 0 --text text --device cpu)
expect 0 "a preset of its own accord" "$gpt" "${small[@]}" --preset auto --iters 1 --out auto
expect 0 "resumed with the same" "$gpt" --resume auto --preset auto --iters 2
expect 0 "resumed with its name" "$gpt" --resume auto --preset cpu --iters 3
expect 1 "tokens in the place of a text" "$gpt" --resume one --tokens raw.bin
one_line_error
mkdir digits && echo '{"overfit_batch": false}' >digits/config.json && cp one/checkpoint-last.safetensors digits
for use in "--resume" "generate --checkpoint" "export --out x --checkpoint"; do
  expect 1 "a run of mnist: $use" "$gpt" $use digits
  one_line_error
  says "digits is a run of mnist; "
done
expect 0 "another learning rate" "$gpt" --resume one --lr 0.01 --iters 201 --out other-rate
says "^changed +--lr: was 0.002, now 0.01"
[ "$(wc -l <other-rate/history.jsonl)" = 2 ] && grep -q '"lr": {"from": 0.002, "to": 0.01}' other-rate/history.jsonl ||
  fail "history: $(cat other-rate/history.jsonl)"
[ "$(grep -c '^--- step .* bytes ---$' other-rate/samples.txt)" = 5 ] || fail "samples: $(cat other-rate/samples.txt)"
for setting in '"program": "gpt"' '"commit": "[0-9a-z-]+"' '"device": "cpu"' "\"data\": \"$PWD/text\"" \
  '"data-hash": "[0-9]+:[0-9]+ [0-9]+:[0-9]+"' '"weight-decay": 0.1' '"command": "gpt --resume one '; do
  grep -qE "^  $setting" other-rate/config.json || fail "config.json lacks $setting: $(cat other-rate/config.json)"
done
mkdir early && cp one/config.json early
expect 1 "killed before its first checkpoint" "$gpt" --resume early
one_line_error
says "begin it again with --out early$"
# Evaluations, wherever they end, leave the draws of the training alone.
drawn=("${tiny[@]}" --iters 3 --eval-interval 3 --dropout 0.5 --sample 0)
expect 0 "one evaluation" "${drawn[@]}" --out drawn-one
expect 0 "an evaluation after each step" "${drawn[@]}" --eval-interval 1 --out drawn-three
same <(tail -n 1 drawn-one/metrics.csv | cut -d, -f3) <(tail -n 1 drawn-three/metrics.csv | cut -d, -f3) "evaluations change nothing"
cp -r one damaged
sed '/"block"/q' one/config.json >damaged/config.json
expect 1 "a config.json that was cut off" "$gpt" --resume damaged
one_line_error
says "damaged/config.json"
sed 's/"model"/"mkdel"/' one/config.json >damaged/config.json
expect 1 "a config.json with an unknown setting" "$gpt" --resume damaged
one_line_error
says "damaged/config.json"
sed 's/"layers": [0-9]*/"layers": 0/' one/config.json >damaged/config.json
expect 1 "a config.json with a value out of range" "$gpt" --resume damaged
one_line_error
says "damaged/config.json has a value that can't be: --layers"
sed 's/"lr": [^,]*/"lr": /' one/config.json >damaged/config.json
expect 1 "a config.json that lacks a value" "$gpt" --resume damaged
one_line_error
says "damaged/config.json.: the text is not valid JSON near byte"
cp -r one cut
head -c 5000 one/checkpoint-last.safetensors >cut/checkpoint-last.safetensors
expect 1 "a truncated checkpoint" "$gpt" --resume cut
one_line_error
cp -r exported cut-model
head -c 20000 exported/model.safetensors >cut-model/model.safetensors
expect 1 "a truncated model" "$gpt" logits --model cut-model --tokens ids.npy --out x.npy
one_line_error
sed 's/"n_head": *[0-9]*/"n_head": 3/' exported/config.json >cut-model/config.json
cp exported/model.safetensors cut-model
expect 1 "a model whose heads do not divide" "$gpt" logits --model cut-model --tokens ids.npy --out x.npy
one_line_error
expect 1 "a prompt with unknown characters" "${write[@]}" --prompt "one Z"
one_line_error
says "'Z' \(U\+005A\) at byte 4"
{ npy '<i8' '3,' && numbers 1 17 3; } >beyond.npy
expect 1 "token ids out of range" "$gpt" logits --model one --tokens beyond.npy --out x.npy
one_line_error
says "token 17"
{ npy '<i8' '1, 40' && numbers 1 2 3 4 5 6 7 8 9 10 1 2 3 4 5 6 7 8 9 10 1 2 3 4 5 6 7 8 9 10 1 2 3 4 5 6 7 8 9 10; } >long.npy
expect 1 "a sequence longer than the model" "$gpt" logits --model one --tokens long.npy --out x.npy
one_line_error
says "40 tokens"
expect 1 "no such model" "$gpt" generate --checkpoint absent --prompt a
one_line_error
expect 1 "no averaged weights" "${write[@]}" --ema
one_line_error
ln -s loop loop
for flag in --text --tokens --tokenizer --resume --out "generate --checkpoint"; do
  expect 1 "a link to itself: $flag" "$gpt" $flag loop
  one_line_error
done
if [ ! -e /dev/nvidiactl ]; then
  expect 1 "no GPU" "$gpt" --device cuda --out x
  one_line_error
  says "built without CUDA; build it with: ./ct gpt --cuda|no GPU that can be used"
fi

[ "$failures" = 0 ] && echo "all is well" || { echo "$failures failures"; exit 1; }
