#!/usr/bin/env bash
# The suite on processors that this machine is not, which QEMU emulates: what ./ct test --arm and --emulated run.
#   usage: emulated.sh BUILD --arm | --emulated [TESTS]
#   --arm:      64-bit ARM. Any number of threads gives the same bits there.
#   --emulated: x86-64 processors of the levels v2 and v3 (core/device/cpu_level.h): each takes the kernels of its level by itself, and
#               has the bits that this machine has with them. v4 is not emulated: QEMU has no AVX-512.
#   BUILD: the folder of a build with ct_tests; TESTS: a selection of tests (Catch2's) other than the usual one
# fork() is left out: a process that QEMU emulates does not survive it with threads.
set -euo pipefail
build=$1 what=$2
default='[conformance],[golden],[threads],[rng],[executor]~"*fork*",[parallel]~"*fork*"'
failures=0
mkdir -p "$build/emulated"
cd "$build"

# run NAME COMMAND...: with its output in NAME.log; what it computes is NAME.txt.
run() {
  local name=$1 start=$SECONDS
  shift
  if COTANGENT_DIGEST=emulated/$name.txt env "$@" >"emulated/$name.log" 2>&1; then
    echo "ok: $name ($((SECONDS - start)) s)"
  else
    echo "FAIL: $name: exit code $?, the end of $PWD/emulated/$name.log:"
    tail -n 20 "emulated/$name.log" | sed 's/^/  | /'
    failures=$((failures + 1))
  fi
}
same() {
  if diff "emulated/$1.txt" "emulated/$2.txt" >emulated/diff; then
    echo "ok: $1 and $2 have the same bits, of $(wc -l <"emulated/$1.txt") lines"
  else
    echo "FAIL: $1 and $2 differ in $(grep -c '^<' emulated/diff) lines, among them"
    grep '^<' emulated/diff | head -n 8
    failures=$((failures + 1))
  fi
}

if [ "$what" = --arm ]; then
  # With the C library of libc6:arm64: with that of the cross compiler (-L) the emulated pthread_create() of QEMU 7.2 never returns.
  arm=(qemu-aarch64)
  for threads in 1 2 7; do run "digest-$threads-threads" "COTANGENT_NUM_THREADS=$threads" "${arm[@]}" ./ct_tests "[digest]"; done
  for threads in 2 7; do same digest-1-threads "digest-$threads-threads"; done
  run tests "${arm[@]}" ./ct_tests "${3:-$default,[simd],[gemm]}"
  run example "${arm[@]}" bin/pinn --steps 40 --hidden 16
else
  for processor in v2=Nehalem v3=Haswell; do
    level=${processor%=*} emulated=(qemu-x86_64 -cpu "${processor#*=}")
    # sin, log and others of f64 are the system's, which has them for several processors as well: for v2 those without FMA.
    tunables=""
    [ "$level" != v2 ] || tunables=glibc.cpu.hwcaps=-FMA,-AVX2
    run "$level-here" "COTANGENT_CPU=$level" "GLIBC_TUNABLES=$tunables" ./ct_tests "[digest]"
    run "$level-emulated" "${emulated[@]}" ./ct_tests "[digest]"
    same "$level-here" "$level-emulated"
    run "$level-tests" "${emulated[@]}" ./ct_tests "${3:-$default}"
  done
fi
exit $((failures > 0))
