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

command -v curl >/dev/null || { echo "fetch_mnist: curl is needed: apt-get install curl" >&2; exit 1; }
mkdir -p "$dir"

checks() { [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$2" ]; }

# Tries one mirror; what has arrived stays in FILE.part and is continued, by the next try or mirror.
fetch_from() {
  local url=$1 part=$2 sum=$3 try
  for try in 1 2 3; do
    if curl --fail --silent --show-error --location --connect-timeout 15 --speed-limit 1000 --speed-time 20 \
         --continue-at - --output "$part" "$url"; then
      checks "$part" "$sum" && return 0
      echo "  $url: the checksum differs; starting it over" >&2
      rm -f "$part"
    fi
    # A part that is complete but can't be continued (HTTP 416) may be the whole file already.
    checks "$part" "$sum" && return 0
    sleep "$try"
  done
  return 1
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
    echo "fetch_mnist: no mirror gave $file; what arrived is in $dir/$file.part. Try again later, name other mirrors in" >&2
    echo "MNIST_MIRRORS, or put the file into $dir by hand." >&2
    exit 1
  fi
done <<<"$files"
echo "MNIST is in $dir: ./ct mnist --data $dir"
