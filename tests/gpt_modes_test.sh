#!/usr/bin/env bash
# Every way to train reaches the loss of f32: the same run in each precision and with each technique.
#   usage: gpt_modes_test.sh GPT_PROGRAM [FLAGS]
# FLAGS go to every run; without them a small model learns the project's own text for some seconds. Longer (without
# dropout: batches in parts drop other elements):
#   tests/gpt_modes_test.sh build/cpu/bin/gpt --text shakespeare.txt --preset cpu --iters 1000
#   tests/gpt_modes_test.sh build/cuda/bin/gpt --text shakespeare.txt --preset char --dropout 0 --iters 400
# (not much longer: a model that learns its text by heart ends anywhere).
allowed=0.02
flags=("${@:2}")
for ((i = 0; i < ${#flags[@]}; ++i)); do  # a text is where the caller stands
  [ "${flags[i]}" != --text ] || flags[i + 1]=$(readlink -f "${flags[i + 1]}")
done
[ ${#flags[@]} -gt 0 ] || flags=(--preset tiny --device cpu --batch 8 --iters 400 --eval-interval 400 --eval-batches 40)
source "$(dirname "${BASH_SOURCE[0]}")/example_testing.sh" "$@"

# mode NAME FLAGS...: trains, and holds the last validation loss against that of f32, the first mode.
mode() {
  local name=$1 start=$SECONDS loss norm
  shift
  if ! "$program" "${flags[@]}" --sample 0 --out "$name" "$@" >log 2>&1; then
    fail "$name"
    return
  fi
  loss=$(tail -n 1 "$name/metrics.csv" | cut -d, -f3)
  norm=$(tail -n 1 "$name/metrics.csv" | cut -d, -f5)
  [ -n "${first_loss:-}" ] || first_loss=$loss first_norm=$norm
  # A norm far from that of f32 would be one of gradients that were clipped before they were unscaled.
  if awk -v a="$loss" -v b="$first_loss" -v d=$allowed -v n="$norm" -v m="$first_norm" \
    'BEGIN { exit !(a - b <= d && n < 2 * m && m < 2 * n) }'; then
    printf 'ok:   '
  else
    printf 'FAIL: '
    failures=$((failures + 1))
  fi
  awk -v name="$name" -v a="$loss" -v b="$first_loss" -v n="$norm" -v s=$((SECONDS - start)) \
    'BEGIN { printf "%-22s validation loss %.4f (%+.4f), norm of the gradient %.3f, %d s\n", name, a, a - b, n, s }'
}

# Smaller batches, of which several make a step, and as many sequences to evaluate on.
batch=8 eval=20
for ((i = 0; i + 1 < ${#flags[@]}; ++i)); do
  case ${flags[i]}=${flags[i + 1]} in
    --batch=*) batch=${flags[i + 1]} ;;
    --eval-batches=*) eval=${flags[i + 1]} ;;
    --preset=tiny) eval=4 ;;
    --preset=cpu) batch=16 ;;
    --preset=char) batch=64 ;;
  esac
done
in_parts=(--batch $((batch / 4)) --accumulate 4 --eval-batches $((eval * 4)))
mode f32
mode bf16 --dtype bf16
mode f16 --dtype f16
mode pure-bf16 --dtype pure-bf16
mode pure-f16 --dtype pure-f16
mode recompute --recompute
mode accumulate "${in_parts[@]}"
mode unfused-loss --fused-loss false
mode bf16-all --dtype bf16 --recompute "${in_parts[@]}"

few=(--preset tiny --device cpu --iters 8 --eval-interval 8 --eval-batches 1 --sample 0)
for more in "--dtype f32" "--dtype bf16" "--dtype f16 --batch 2 --accumulate 2" "--dtype pure-bf16 --recompute"; do
  checked "$more" "$program" "${few[@]}" --batch 4 $more
done
mode f16-all --dtype f16 --recompute "${in_parts[@]}"
mode pure-bf16-all --dtype pure-bf16 --recompute "${in_parts[@]}"
mode bf16-unfused-loss --dtype bf16 --fused-loss false

[ "$failures" = 0 ] && echo "all is well" || { echo "$failures failures"; exit 1; }
