#!/usr/bin/env bash
# Programs and the Python module are hardened: position independent, relocations read-only before main(), no executable stack,
# and functions with arrays watch their stack.
#   usage: hardened.sh FILE...
set -euo pipefail
failed=0
for file in "$@"; do
  missing=""
  headers=$(readelf -hldW "$file")
  symbols=$(readelf --dyn-syms -W "$file")
  grep -q 'Type: *DYN' <<<"$headers" || missing+=" PIE"
  grep -q 'GNU_RELRO' <<<"$headers" || missing+=" RELRO"
  grep -Eq '\(FLAGS(_1)?\).*NOW' <<<"$headers" || missing+=" BIND_NOW"
  grep -q 'GNU_STACK.* RW ' <<<"$headers" || missing+=" NX-stack"
  grep -q '__stack_chk_fail' <<<"$symbols" || missing+=" stack-protector"
  grep -Eq '_chk@' <<<"$symbols" || missing+=" FORTIFY"
  [ -z "$missing" ] || {
    echo "$file lacks:$missing"
    failed=1
  }
done
exit $failed
