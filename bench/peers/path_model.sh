#!/usr/bin/env bash
# The minimal work of a router behind virtio rings (path_model.c), on CPUs 0 and 1: the upper bound for `forward` on this machine.
. "$(dirname "$0")/peers_lib.sh"
need gcc=gcc
hp_on 64 || exit 1
gcc -O3 -march=native -pthread -o "$T/path_model" "$here/path_model.c" || exit 1
for _ in $(seq "$REPS"); do
  placement
  record 64 "$(timeout 30 "$T/path_model" "$SECS")"
done
report path_model
