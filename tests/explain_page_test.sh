#!/usr/bin/env bash
# The page that explain() writes, in a browser without a screen: the page clicks and presses keys itself (PAGE#test), and
# what a reader would see must be what the tape says. Skipped where there is no Chromium.
#   usage: explain_page_test.sh PROGRAM
source "$(dirname "${BASH_SOURCE[0]}")/example_testing.sh" "$@"

browser=$(command -v chromium-headless-shell chromium chromium-browser google-chrome | head -n 1)
if [ -z "$browser" ]; then
  echo "skipped: there is no browser (apt install chromium-headless-shell)"
  exit 77
fi
flags=(--headless --disable-gpu --virtual-time-budget=5000 "--user-data-dir=$work/profile")
[ "$(id -u)" -ne 0 ] || flags+=(--no-sandbox)
look() {  # look WHAT: what the page says of itself, in ./log
  expect 0 "$1" "$browser" "${flags[@]}" --dump-dom "file://$work/explain.html#test"
  sed -n '/<pre id="test">/,/<\/pre>/{s/.*<pre id="test">//;/<\/pre>/d;s/&lt;/</g;s/&gt;/>/g;s/&amp;/\&/g;p}' log >said && mv said log
  says "^end$"
  ! grep -q ERROR log || fail "an error in the page"
}

expect 0 "a perceptron" "$program" mnist --batch 4 --device cpu
look "its page"
# Kernels and what is kept, of a node and of a leaf.
says "^side 4 linear formula y = x w\^T \+ b module 4 result f32\[4, 256\] kept for backward x \(y of 3\): f32\[4, 256\], 4 KiB weight \(4.weight\): f32\[256, 256\], 0 B gradients go of x to 3 dropout of weight to 4.weight of bias to 4.bias cotangents added up here 1 \|g\| [0-9.e-]+ forward [0-9.]+ us, [0-9]+% of the limit backward [0-9.]+ us kernel ops/linear/linear_cpu.cpp:[0-9]+$"
says "^side 1.weight leaf f32\[256, 784\] bytes 784 KiB gradients added up here 1 \|g\| [0-9.e-]+$"
# The walk: before it, in the middle, at its end.
says "^start [nl0-9 ]*n8=waits\(g\)"
says "^step 2 of 8: backward of 7 linear \(7\)\. .*n6=waits\(g\) l4=done\(g\) l5=done\(g\) n7=now\(g\) n8=done\(g\)$"
says "^step 8 of 8: backward of 1 linear \(1\)\. l0=done\(g\) l1=done\(g\) n1=now\(g\)"
says "^pressed 8, undone 0$"
says "^back step 7 of 8$"
says "^home 0, waiting 1, leaves done 0$"
says "^most .* in the backward of 1 "
says "^chart step 8 of 8: backward of 1 linear \(1\)\.$"
says "^areas 4$"

expect 0 "GPT-2" "$program" gpt --width 64 --length 16 --vocabulary 200 --device cpu
look "its page"
says "^run transformer.h.11 closes 17 of 17$"
says "^run transformer.h.10 opens 17 of 17$"
says "^pressed 50, undone 0$" # 210 nodes, but of ten layers that are closed
says "^partly l0=waits\(g: 1 of 2\), l0=waits\(g: 1 of 2\)$" # the table of tokens, which is the head too: shown at both
# Cotangents of the stream of residuals add up.
says "^side 4 dropout .* cotangents added up here 2 "
[ "$failures" = 0 ]
