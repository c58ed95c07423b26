#!/usr/bin/env bash
# MNIST on products of one's own: a rung of the ladder gemm does them, forward and backward.
#   usage: mnist_gemm_test.sh MNIST_GEMM_PROGRAM MNIST_PROGRAM
mnist=$(readlink -f "${2:?mnist without rungs}")
source "$(dirname "${BASH_SOURCE[0]}")/example_testing.sh" "$@"
small_images 640 100
tiny=(--data data --device cpu --hidden 16 --batch 64 --epochs 1 --threads 1)

expect 0 "the library's products" "$program" "${tiny[@]}" --out library
expect 0 "a rung's products" "$program" "${tiny[@]}" --gemm blocks --out blocks
says "^products blocks$"
# The same network but for the rounding of other sums: so the rung has done them, and has done them right.
loss() { tail -n 1 "$1/metrics.csv" | cut -d, -f2; }
! cmp -s library/checkpoint-last.safetensors blocks/checkpoint-last.safetensors || fail "the rung has done no product"
awk -v a="$(loss library)" -v b="$(loss blocks)" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < 1e-6 * a ^ 2) }' ||
  fail "loss $(loss blocks) with the rung, $(loss library) without"
expect 1 "a rung that there is not" "$program" "${tiny[@]}" --gemm bricks --out bricks
says "there are loops, order, blocks"
expect 1 "a program without rungs" "$mnist" "${tiny[@]}" --gemm blocks --out none
says "no products to offer"
[ "$failures" = 0 ] && echo "all is well" || { echo "$failures failures"; exit 1; }
