#!/usr/bin/env bash
# Walks from nothing to an own op that trains inside of a PyTorch model, with the seconds of each step: an environment, the
# package, `./ct op new`, conformance and gradcheck, a call from Python, training. With CUDA where the package and the machine
# have it. Red beyond 80 lines of code or 600 s.
#   usage: from_bare.sh            builds a wheel of this tree first
#          from_bare.sh WHEEL      takes one
#          from_bare.sh --here     takes the python3 and the package that are there (PYTHONPATH), and makes no environment
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
package=${1:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONSAFEPATH=1 PIP_DISABLE_PIP_VERSION_CHECK=1 COTANGENT_CACHE=$work/cache

step() {
  local name=$1 start=$SECONDS
  shift
  "$@"
  printf '%-44s %4d s\n' "$name" $((SECONDS - start))
}
python=python3
if [ "$package" != --here ]; then
  step "an environment" python3 -m venv "$work/env"
  python=$work/env/bin/python
  if [ -z "$package" ]; then
    step "a wheel of the tree" "$python" -m pip wheel --quiet --no-deps --wheel-dir "$work" "$root"
    package=$(echo "$work"/*.whl)
  fi
  step "the package" "$python" -m pip install --quiet "$package"
  step "PyTorch" "$python" -m pip install --quiet torch
fi
cd "$work"
step "./ct op new squash" "$root/ct" op new squash
step "compiling, checking, training" "$python" "$here/train.py" squash
lines=$(cat squash/op.cpp squash/op.cu | grep -vcE '^\s*(//.*)?$')
printf '%-44s %4d s, %d lines\n' "all" "$SECONDS" "$lines"
[ "$lines" -le 80 ] && [ "$SECONDS" -le 600 ]
