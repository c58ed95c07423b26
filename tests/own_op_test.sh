#!/usr/bin/env bash
# An op of one's own from the outside: made by ./ct op new, built, checked and measured by the program op; and what is said
# of ops that are wrong. The cache lies in a folder that goes when the test ends.
#   usage: own_op_test.sh PROGRAM: build/*/bin/op
source "$(dirname "${BASH_SOURCE[0]}")/example_testing.sh" "$@"
source_root=$(readlink -f "$here/..")
ct=$source_root/ct
export COTANGENT_CACHE=$work/cache
lines() { cat "$@" | grep -cvE '^[[:space:]]*(//.*)?$'; }
# copy NAME [SED-EXPRESSION FILE]: the made op under another name, with a change
copy() {
  cp -r isru "$1"
  sed -i "s/isru/$1/g" "$1"/*
  [ $# -eq 1 ] || sed -i "$2" "$1/$3"
  [ $# -eq 1 ] || ! diff -q <(sed "s/isru/$1/g" "isru/$3") "$1/$3" >/dev/null || fail "the change of $1 changes nothing"
}

# --- from an empty folder to an op that is checked and measured ---
start=$SECONDS
expect 0 "new" "$ct" op new isru
expect 0 "check compiles it" "$program" check isru --device cpu
says "isru: y = x / sqrt\(1 \+ x\^2\), compiled and loaded in"
says "^conformance: [0-9]{3} checks, 0 failures"
says "^gradcheck: 2 samples, 2 of them twice"
says "^passed"
expect 0 "build has nothing to do" "$program" build isru
says "\), loaded in"
if ! grep -q "CUDA kernels: compiled for sm_" log; then echo "skipped: CUDA kernels, for want of nvcc and NVRTC"; fi
expect 0 "bench" "$program" bench isru --device cpu
says "forward +[0-9.]+ +[0-9.]+ +[0-9.]+ \([ 0-9]+%\) +[0-9.]+ \([0-9.]+ x\)"
says "backward +[0-9.]+ "
count=$(lines isru/op.cpp isru/op.cu)
[ "$count" -le 80 ] || fail "the op that ./ct op new makes has $count lines; 80 are the most"
count_of_ours=$(lines "$source_root"/examples/custom_op/bump/op.c*)
[ "$count_of_ours" -le 80 ] || fail "examples/custom_op/bump has $count_of_ours lines; 80 are the most"
[ $((SECONDS - start)) -lt 600 ] || fail "an op takes $((SECONDS - start)) s; ten minutes are the most"
echo "an op of $count lines, made, built, gradchecked and measured in $((SECONDS - start)) s"
expect 0 "the example's op" "$program" check "$source_root/examples/custom_op/bump" --device cpu

# --- the cache ---
# Nothing is measured from here on: at -O0, with the headers parsed once, and on the CPU, an op takes a fifth of the time.
sed -n '/^#include </p' isru/op.cpp >base.h
"${COTANGENT_CXX:-${CXX:-c++}}" -std=c++20 -O0 -fPIC -fvisibility=hidden -fno-math-errno -fno-trapping-math -DCOTANGENT_LOADED_OP=1 \
  -I "$(dirname "$program")/../include" -x c++-header base.h -o base.h.gch || fail "the headers of an op do not compile alone"
export COTANGENT_CXX_FLAGS="-O0 -include $work/base.h"
echo "// another line" >>isru/op.cpp
expect 0 "what has changed is compiled" "$program" build isru
says "compiled and loaded in"
COTANGENT_CXX_FLAGS="-O1" expect 0 "other flags too" "$program" build isru
says "compiled and loaded in"
rm -rf cache
"$program" build isru >one 2>&1 &
first=$!
"$program" build isru >two 2>&1
wait $first && [ "$(cat one two | grep -c ', compiled and loaded in')" = 1 ] && [ "$(cat one two | grep -c ', loaded in')" = 1 ] ||
  { cat one two >log; fail "of two processes at once one compiles, and both load"; }

export COTANGENT_NVCC=none COTANGENT_NVRTC=/no/such.so
# Damaged files of the cache are compiled again; files that others can write to, or whose name they could have guessed, are
# not loaded.
library_of() { "$program" build isru | sed -n 's/^  \(.*\.so\)$/\1/p'; }
for damage in 'truncate -s 5000' 'truncate -s 0' 'truncate -s -1' 'dd conv=notrunc bs=1 seek=9000 count=64 if=/dev/zero status=none of='; do
  built=$(library_of)
  case $damage in *=) $damage"$built" ;; *) $damage "$built" ;; esac
  expect 1 "a damaged one by its name ($damage)" "$program" build "$built"
  expect 0 "a damaged one is compiled again ($damage)" "$program" build isru
  says "compiled and loaded in"
done
chmod g+w cache/ops
expect 1 "a cache that others can write to" "$program" build isru
says "^\[load_op\] the cache $work/cache/ops is no folder of this user's that others can't write to"
chmod g-w cache/ops
chmod o+w "$(library_of)"
expect 0 "a file that others can write to" "$program" build isru
says "compiled and loaded in"
if [ "$(id -u)" = 0 ]; then
  chown 12345 cache
  expect 1 "a cache of another user's" "$program" build isru
  says "^\[load_op\] the cache $work/cache is no folder of this user's"
  chown 0 cache
fi
mkdir tmp
for time in one two; do
  TMPDIR=$work/tmp expect 0 "without a home, $time" env -u HOME -u XDG_CACHE_HOME -u COTANGENT_CACHE "$program" build isru
  says "compiled and loaded in"
done
[ "$(stat -c %a tmp/cotangent-*)" = $'700\n700' ] || fail "without a home each process has a folder of its own: $(ls -l tmp)"
ln -s loop loop
expect 1 "a link that leads to itself" "$program" build loop isru
says "^\[load_op\] .*loop.*; "
says "^isru: .*loaded in"
mkdir -p above/cotangent/core/op && : >above/cotangent/core/op/op_def.h
COTANGENT_CXX_FLAGS=-O0 expect 0 "from a folder with another cotangent in it" env -C above "$program" check ../isru --device cpu
says "^passed"
rm -rf cache
printf '#include <cerrno>\nextern "C" int flock(int, int) { errno = ENOLCK; return -1; }\n' >flock.cpp
if "${CXX:-c++}" -shared -fPIC flock.cpp -o flock.so && LD_PRELOAD=$work/flock.so ls >/dev/null 2>&1; then
  for i in 1 2 3 4; do LD_PRELOAD=$work/flock.so "$program" build isru >"locks.$i" 2>&1 & done
  for i in 1 2 3 4; do wait -n || { cat locks.*; fail "four processes at once on a file system without locks"; }; done
fi

# --- the kernels of the GPU ---
unset COTANGENT_NVCC COTANGENT_NVRTC
printf '#!/bin/sh\nfor last; do :; done\ncp "$last" "%s/unit.cu"\nshift 5\necho code >"$(echo "$*" | sed "s/.*-o \\([^ ]*\\) .*/\\1/")"\n' "$work" >nvcc
printf '#!/bin/sh\necho "op.cu(3): error: no"\nexit 1\n' >bad_nvcc
chmod +x nvcc bad_nvcc
cp -r isru 'a "b\c'
COTANGENT_NVCC=$work/nvcc expect 0 "a folder's name with a quote" "$program" build 'a "b\c'
sed -n '/^#line/p' unit.cu >line.cpp && "${CXX:-c++}" -fsyntax-only line.cpp || fail "its #line is no C: $(cat line.cpp)"
COTANGENT_NVCC=$work/bad_nvcc expect 1 "check, where the kernels of the GPU do not compile" "$program" check isru --device cpu
says "isru/op.cu does not compile"

# --- ops that are wrong: each is named, and the next call works ---
copy broken 's/1 + x \* x/1 + x * z/' op.cpp
expect 1 "one that does not compile" "$program" build broken isru
says "^\[load_op\] $work/broken/op.cpp does not compile; correct it and call again. The compiler says:"
says "broken/op.cpp:[0-9]+:[0-9]+: error: .z. "
says "^isru: .*loaded in"
copy one_way 's/{forward_cpu, backward_cpu}/{forward_cpu, nullptr}/' op.cpp
expect 1 "one without a backward" "$program" build one_way isru
says "one_way/op.cpp does not compile"
says "a differentiable op needs a backward kernel"
says "^isru: .*loaded in"
copy wrong 's|return g / ((1 + x \* x)|return g / ((1 + x)|' op.cpp
expect 1 "one with a wrong gradient" "$program" check wrong isru --device cpu
says "cpu +f32 +forward ok +backward WRONG"
says "gradient 0 against the plain kernels"
says "^FAILED"
says "^passed"
copy relu
expect 1 "one of a name that is the library's" "$program" build relu isru
says "^\[register_op\] .*relu.*; "
says "^isru: .*loaded in"
copy silent '/^CT_OWN_OP/d' op.cpp
expect 1 "one that does not say what it is" "$program" build silent isru
says "^\[load_op\] .*so is no op: it does not say CT_OWN_OP"
mkdir empty
expect 1 "a folder without an op, and none at all" "$program" build empty absent isru
says "^\[load_op\] empty has no op.cpp; "
says "^\[load_op\] absent is not there; "
says "^isru: .*loaded in"
"$program" build isru >log
built=$(sed -n 's/^  \(.*\.so\)$/\1/p' log)
LC_ALL=C sed 's/cotangent op for [0-9]*\./cotangent op for 9./' "$built" >other.so
expect 1 "one of another version" "$program" build other.so "$built"
says "^\[load_op\] .*other.so was built for Cotangent 9[0-9.]*; this is [0-9.]*: build it again"
says "^isru: .*loaded in"
COTANGENT_CXX_FLAGS="-O1 -D_GLIBCXX_USE_CXX11_ABI=0" expect 1 "one of another ABI" "$program" build isru
says ".so was built for Cotangent [0-9.]* with other headers or settings; this is"
COTANGENT_CACHE=/dev/null/cache expect 1 "a cache that can't be written" "$program" build isru
says "^\[load_op\] the cache /dev/null/cache can't be written: Not a directory; name a folder that can in COTANGENT_CACHE"
COTANGENT_CXX=no-such-compiler expect 1 "a compiler that is not there" "$program" build isru
says "^\[load_op\] there is no compiler no-such-compiler; "
COTANGENT_NVCC=none COTANGENT_NVRTC=/no/such.so expect 0 "no compiler of CUDA kernels" "$program" build isru
says "neither nvcc nor NVRTC is here"
"$program" build isru >log
if grep -q "CUDA kernels: compiled for" log; then
  copy bad_kernel 's/blockIdx.x/blockIdx.q/' op.cu
  expect 1 "a CUDA kernel that does not compile" "$program" build bad_kernel isru
  says "^\[bad_kernel\] $work/bad_kernel/op.cu does not compile; "
  says "bad_kernel/op.cu\(3\): error"
  says "^isru: .*loaded in"
fi
expect 2 "a wrong command" "$program" improve isru
expect 1 "a device that is none" "$program" check isru --device tpu
# --- ./ct op new ---
for name in Isru 2x 'a b' -x; do expect 1 "a name that is none: $name" "$ct" op new "$name"; done
says "an op's name is of small letters"
expect 1 "a folder that is there" "$ct" op new isru
says "isru is there already"
expect 1 "a folder that can't be made" "$ct" op new /dev/null/isru
says "/dev/null/isru can't be made"
[ "$failures" = 0 ]
