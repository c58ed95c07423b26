#!/usr/bin/env bash
# The examples of one file, with settings for seconds: that they learn something, and what they say of wrong settings.
#   usage: small_examples_test.sh PROGRAM
source "$(dirname "${BASH_SOURCE[0]}")/example_testing.sh" "$@"
name=$(basename "$program")
source_root=$(readlink -f "$here/..")

# The number behind WORD in the last line that has it.
last() { grep -a "$1" log | tail -n 1 | sed "s/.*$1 *\(-\{0,1\}[0-9.e+-]*\).*/\1/"; }
# falls WORD: it is smaller in the last line than in the first.
falls() {
  local first
  first=$(grep -am 1 "$1" log | sed "s/.*$1 *\(-\{0,1\}[0-9.e+-]*\).*/\1/")
  awk -v a="$first" -v b="$(last "$1")" 'BEGIN { exit !(a != "" && b + 0 < a + 0) }' && echo "ok: $1 falls" ||
    fail "$1 goes from '$first' to '$(last "$1")'; less is wanted"
}
at_least() { awk -v a="$(last "$1")" -v b="$2" 'BEGIN { exit !(a != "" && a + 0 >= b) }' && echo "ok: $1 is $2 or more" || fail "$1 is $(last "$1"); $2 is wanted"; }

help_is_kept
expect 2 "an unknown flag" "$program" --nonsense
expect 2 "a number that is none" "$program" --lr x
case $name in cifar | dcgan | vae)
  expect 1 "a folder that is not there" "$program" --data absent --device cpu
  one_line_error
  says absent
  ;;
esac

case $name in
  custom_op)
    expect 0 "the default settings" "$program"
    awk '{ loss[$1] = $3 } END { exit !(loss["bump"] != "" && loss["bump"] < 0.01 && loss["tanh"] > 0.1) }' log ||
      fail "with bump it learns the wave and with tanh it does not"
    ;;
  pinn)
    expect 0 "a few hundred steps" "$program" --steps 600 --hidden 24
    falls "error of u"
    expect 0 "a profile of some steps" "$program" --steps 20 --profile --trace step.json
    says "^linear  *fwd "
    says "^linear  *bwd "
    says "of its limit"
    says "memory of cpu: at most"
    grep -q '"name":"linear backward"' step.json || fail "no calls in the trace"
    expect 0 "a profile of too few steps" "$program" --steps 5 --profile
    says "no steps after the first 5"
    ;;
  timing)
    expect 0 "some calls" "$program" --calls 5 --device cpu
    says "a wait after each"
    says "time_of"
    ;;
  distributed)
    small="--steps 40 --width 32 --layers 1 --heads 2 --batch 8 --length 32"
    expect 0 "one rank" "$program" --ranks 1 $small
    falls loss
    grep "^step" log | cut -c1-20 >one
    for more in "--ranks 2" "--ranks 4 --zero1 --eager"; do
      expect 0 "$more" "$program" $more $small
      says "exposed communication"
      grep "^step" log | cut -c1-20 >several
      same one several "the losses of $more" # up to the fourth digit
    done
    checked "two ranks" "$program" --ranks 2 $small
    expect 1 "shares that differ" "$program" --ranks 3 --batch 8
    one_line_error
    says "takes the same share"
    ;;
  dqn)
    expect 0 "some runs" "$program" --steps 6000 --start 200 --seed 3
    at_least "balanced for" 30 # at random it falls after some 20
    checked "some runs" "$program" --steps 600 --start 100 --seed 3
    ;;
  rnn)
    expect 0 "some steps" "$program" --steps 60 --hidden 48 --layers 1 --window 32 --batch 16 --write 40 --device cpu
    falls "test loss"
    checked "some steps" "$program" --steps 12 --hidden 24 --layers 1 --window 16 --batch 8 --write 5 --device cpu
    expect 1 "a text that is not there" "$program" --text absent --device cpu
    one_line_error
    says absent
    ;;
  cifar)
    expect 0 "drawn waves" "$program" --drawn --examples 800 --width 4 --blocks 1 --batch 32 --epochs 5 --device cpu
    at_least "test accuracy" 30 # by chance 10
    falls loss
    checked "drawn waves" "$program" --drawn --examples 200 --width 4 --blocks 1 --batch 16 --epochs 1 --device cpu
    # Four images in CIFAR-10's format, and one that is cut off.
    mkdir data
    for file in data_batch_{1..5} test_batch; do
      for label in 0 3 9 1; do
        printf "\\x0$label"
        head -c 3072 "$program"
      done >data/$file.bin
    done
    expect 0 "files in its format" "$program" --data data --width 2 --blocks 1 --epochs 1 --batch 4 --device cpu
    says "20 images to train on, 4 to test"
    head -c 5000 data/data_batch_3.bin >cut && mv cut data/data_batch_3.bin
    expect 1 "a file that is cut off" "$program" --data data --device cpu
    one_line_error
    ;;
  vae)
    small_images 1280 300
    expect 0 "three passes" "$program" --data data --epochs 3 --hidden 32 --latent 4 --device cpu --out drawn.svg
    falls "test loss"
    grep -q "<svg" drawn.svg || fail "no picture"
    ;;
  dcgan)
    small_images 512 10
    expect 0 "two passes" "$program" --data data --epochs 2 --width 4 --batch 64 --device cpu --out drawn.svg
    says "epoch  2  losses: discriminator [0-9.]+, generator [0-9.]+"
    grep -q "<svg" drawn.svg || fail "no picture"
    ;;
  *) fail "no test for $name" ;;
esac
[ "$failures" = 0 ]
