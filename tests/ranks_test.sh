#!/usr/bin/env bash
# mnist, gpt and cifar as processes that train together: the figures of one process with the same batches, whatever their
# number; on another number after an interrupt; and an error on the others where one is killed.
#   usage: ranks_test.sh PROGRAM_IN_THE_FOLDER_OF_ALL
source "$(dirname "${BASH_SOURCE[0]}")/example_testing.sh" "$@"
folder=$(dirname "$program")
port=$((20000 + RANDOM % 10000))  # below those that the kernel hands out

# start N COMMAND...: N ranks of it, which listen at a port of their own; their pids in ${pids[@]}, their output in rank-R.log.
start() {
  local n=$1 r
  shift
  port=$((port + 1)) pids=()
  for ((r = 0; r < n; ++r)); do
    RANK=$r WORLD_SIZE=$n LOCAL_RANK=$r MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$@" >rank-$r.log 2>&1 </dev/null &
    pids+=($!)
  done
}
# ranks STATUS WHAT N COMMAND...: they all end so.
ranks() {
  local want=$1 what=$2 n=$3 r got=0
  start "$n" "${@:4}"
  for ((r = 0; r < n; ++r)); do
    wait "${pids[r]}"
    got=$?
    cp rank-$r.log log
    [ $got = "$want" ] || fail "$what: rank $r ends with $got; $want is wanted"
    [ $r = 0 ] || [ ! -s log ] || [ "$want" != 0 ] || fail "$what: rank $r speaks"
  done
  echo "ok: $what"
}
# alike A B COLUMNS WHAT: the figures of two metrics.csv are the same but for the rounding of sums.
alike() {
  paste -d, <(cut -d, -f"$3" "$1/metrics.csv") <(cut -d, -f"$3" "$2/metrics.csv") >pairs
  awk -F, 'NR > 1 { n = NF / 2; for (i = 1; i <= n; ++i) if ($i != $(i + n)) { d = $i - $(i + n); if (d * d > 1e-8 * $i * $i) bad = 1 } }
    END { exit bad || NR < 2 }' pairs && [ -s "$2/metrics.csv" ] && echo "ok: $4" || { cp pairs log; fail "$4"; }
}

small_images 1284 300 # the last batch of 4 is shared by 2 and by 4
mnist=("$folder/mnist" --data data --device cpu --hidden 32 --dropout 0 --batch 64 --threads 1)
expect 0 "mnist: one process" "${mnist[@]}" --epochs 2 --out one
ranks 0 "mnist: two ranks" 2 "${mnist[@]}" --epochs 2 --out two
alike one two 1-6 "the same losses, accuracies and rates"
grep -q "2 ranks (tcp)" rank-0.log || fail "rank 0 does not say how many ranks there are"
ranks 0 "mnist: four ranks" 4 "${mnist[@]}" --epochs 2 --out four
alike one four 1-6 "and of four"
expect 0 "mnist: convolutions" "${mnist[@]}" --model cnn --optimizer sgd --hidden 8 --epochs 1 --augment none --out cnn
ranks 0 "mnist: convolutions of two ranks" 2 "${mnist[@]}" --model cnn --optimizer sgd --hidden 8 --epochs 1 --augment none --out cnn2
alike cnn cnn2 1-6 "norms have the statistics of all ranks"
ranks 1 "a batch that can't be shared out" 3 "${mnist[@]}" --out three
cp rank-0.log log
says "batch_size is 64 for 3 ranks"
ranks 1 "one batch by heart" 2 "${mnist[@]}" --overfit-batch --out heart

# Interrupted on two ranks, one of which is told; gone on with on one, and the other way round.
for ((n = 2; n >= 1; --n)); do
  start $n "${mnist[@]}" --epochs 40 --out "cut$n"
  until [ -e "cut$n/checkpoint-last.safetensors" ] || ! kill -0 "${pids[0]}"; do sleep 0.1; done 2>/dev/null
  kill -INT "${pids[n - 1]}"
  for pid in "${pids[@]}"; do
    wait "$pid"
    got=$?
    [ $got = 130 ] || { cat rank-*.log >log && fail "interrupted on $n: exit code $got; 130 is wanted"; }
  done
  ranks 0 "gone on with on $((3 - n))" $((3 - n)) "$folder/mnist" --resume "cut$n" --threads 1
done
expect 0 "mnist: 40 epochs at a stretch" "${mnist[@]}" --epochs 40 --out whole
alike whole cut1 1,2,6 "the losses of a run that was never cut"
alike whole cut2 1,2,6 "and of the other"

# A rank that is killed.
start 2 "${mnist[@]}" --epochs 100000 --out killed
until [ -e killed/checkpoint-last.safetensors ] || ! kill -0 "${pids[0]}"; do sleep 0.1; done 2>/dev/null
before=$SECONDS
kill -KILL "${pids[1]}"
wait "${pids[0]}"
got=$?
cp rank-0.log log
grep -av "^epoch\|^data\|^model\|^run\|^note\|^$" log >error
[ $got = 1 ] && [ $((SECONDS - before)) -lt 20 ] && grep -q "^mnist: \[dist\] rank 0 of 2: rank 1 is gone" error &&
  echo "ok: a killed rank ends the other" || fail "a killed rank: exit code $got after $((SECONDS - before)) s"
wait "${pids[1]}" 2>/dev/null
expect 0 "its last checkpoint is whole" "$folder/mnist" eval --run killed --data data

gpt=("$folder/gpt" --preset tiny --device cpu --threads 1 --iters 40 --eval-interval 20 --batch 4 --accumulate 2 --sample 20)
expect 0 "gpt: one process" "${gpt[@]}" --out g1
ranks 0 "gpt: two ranks" 2 "${gpt[@]}" --out g2
alike g1 g2 1-5 "the same losses and norms"
grep -qa "^--- step 40" g2/samples.txt || fail "no sample"
ranks 0 "gpt: two ranks, the first half" 2 "${gpt[@]}" --iters 20 --schedule constant --out g3
expect 0 "gpt: the other half on one" "$folder/gpt" --resume g3 --iters 40 --threads 1
expect 0 "gpt: both halves on one" "${gpt[@]}" --schedule constant --out g4
alike g4 g3 1-5 "the same losses and norms, resumed on one"

cifar=("$folder/cifar" --drawn --examples 200 --width 4 --blocks 1 --batch 20 --epochs 2 --device cpu)
expect 0 "cifar: one process" "${cifar[@]}"
cut -d% -f1 log | cut -c1-24 >c1
ranks 0 "cifar: two ranks" 2 "${cifar[@]}"
[ "$(grep -c "^epoch" rank-0.log)" = 2 ] || fail "cifar: an epoch is missing"
cut -c1-24 rank-0.log >c2
same <(grep "^epoch" c1 | cut -c1-17) <(grep "^epoch" c2 | cut -c1-17) "cifar: the same losses"

[ "$failures" = 0 ]
