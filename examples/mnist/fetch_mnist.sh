#!/usr/bin/env bash
# Fetches the four MNIST files from the first mirror that has them, checks each against its SHA-256, and
# resumes a download that broke off. Nothing is replaced by a file that does not check.
#
# usage: fetch_mnist.sh [DIR]     (default data/mnist)
#
# MNIST_MIRRORS (a list of base URLs separated by blanks) replaces the mirrors below. MNIST_FILES (lines
# "NAME SHA256") replaces the list of files.
set -euo pipefail

dir=${1:-data/mnist}
mirrors=${MNIST_MIRRORS:-"https://ossci-datasets.s3.amazonaws.com/mnist https://storage.googleapis.com/cvdf-datasets/mnist"}
files=${MNIST_FILES:-"
train-images-idx3-ubyte.gz 440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609
train-labels-idx1-ubyte.gz 3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c
t10k-images-idx3-ubyte.gz 8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6
t10k-labels-idx1-ubyte.gz f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6
"}

die() {
  printf 'fetch_mnist: %s\n' "$@" >&2
  exit 1
}
command -v curl >/dev/null || die "curl is needed: apt-get install curl"
mkdir -p "$dir" 2>/dev/null && [ -w "$dir" ] || die "can't write to the folder $dir; name another one"

checks() { [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$2" ]; }
size() { stat -c %s "$1" 2>/dev/null || echo 0; }

# Tries one mirror; what has arrived stays in FILE.part and is continued, by the next try or mirror. A mirror
# may break off as often as it likes, as long as each try brings something.
fetch_from() {
  local url=$1 part=$2 sum=$3 idle=0 restarts=0 before status
  while ! checks "$part" "$sum"; do
    before=$(size "$part")
    status=0
    curl --fail --silent --show-error --location --connect-timeout 15 --speed-limit 1000 --speed-time 20 \
      --continue-at - --output "$part" "$url" || status=$?
    case $status in
      0 | 33 | 36)  # all has arrived and must check, or the server can't continue
        if checks "$part" "$sum"; then break; fi
        rm -f "$part"
        if [ "$before" = 0 ]; then
          echo "  $url: the checksum differs" >&2
          return 1
        fi
        if [ $((++restarts)) -gt 2 ]; then return 1; fi
        echo "  $url: starting it over" >&2
        ;;
      18 | 28 | 52 | 55 | 56 | 92)  # broken off
        if [ "$(size "$part")" -gt "$before" ]; then idle=0; else idle=$((idle + 1)); fi
        if [ "$idle" -ge 2 ]; then return 1; fi
        sleep "$idle"
        ;;
      23) die "can't write $part; is the disk full?" ;;
      *) return 1 ;;  # not there, or no way to it
    esac
  done
}

while read -r file sum; do
  [ -n "$file" ] || continue
  if checks "$dir/$file" "$sum"; then
    echo "$file: there already"
    continue
  fi
  got=no
  for mirror in $mirrors; do
    if fetch_from "$mirror/$file" "$dir/$file.part" "$sum"; then
      mv "$dir/$file.part" "$dir/$file"
      echo "$file: from $mirror"
      got=yes
      break
    fi
  done
  if [ $got = no ]; then
    [ ! -s "$dir/$file.part" ] || kept="; what arrived is kept in $dir/$file.part"
    die "no mirror gave $file${kept:-}." \
      "Try again later, name other mirrors in MNIST_MIRRORS, or put the file into $dir by hand."
  fi
done <<<"$files"
echo "MNIST is in $dir: ./ct mnist --data $dir"
