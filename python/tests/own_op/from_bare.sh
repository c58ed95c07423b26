#!/usr/bin/env bash
# From an environment with nothing in it to an op of one's own whose gradient is checked, with the seconds of each step.
#   usage: from_bare.sh WHEEL_OR_SOURCE_DIR
set -euo pipefail
package=${1:?a wheel, or the source folder}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

step() {
  local name=$1 start=$SECONDS
  shift
  "$@"
  printf '%-40s %4d s\n' "$name" $((SECONDS - start))
}
python3 -m venv "$work/env"
python=$work/env/bin/python
step "installing the package" "$work/env/bin/pip" install --quiet --disable-pip-version-check "$package"
cd "$work"
step "compiling and checking the op" "$python" - "$here/swish.cpp" <<'PYTHON'
import subprocess
import sys

import numpy as np

import cotangent as ct

subprocess.run(ct.compile_command(sys.argv[1], "swish.so"), check=True)
ct.load_library("./swish.so")
array, step = np.linspace(-3, 3, 101), 1e-6
x = ct.tensor(array, dtype=ct.f64, requires_grad=True)
ct.swish(x, b=1.5).sum().backward()
above, below = (ct.swish(array + d, b=1.5).numpy() for d in (step, -step))
assert np.allclose(x.grad.numpy(), (above - below) / (2 * step), atol=1e-8), "the gradient is wrong"
PYTHON
printf '%-40s %4d s, %d lines\n' "all" "$SECONDS" "$(grep -vcE '^\s*(//.*)?$' "$here/swish.cpp")"
