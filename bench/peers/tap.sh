#!/bin/bash
# TAP device rates, one frame per read/write call (the path of a userspace virtio backend).
# write: CPU 1. read: generator CPU 1, reader CPU 0. fwd: writer (and kernel forwarding) CPU 1, reader CPU 0.
# turn: one thread on CPU 1 does both. _vnet: with a 12-byte virtio-net header. Needs: iproute2 gcc, root.
. "$(dirname "$0")/peers_lib.sh"; . "$here/kernel_lib.sh"
need ip=iproute2 gcc=gcc
echo "Linux $(uname -r); reps=$REPS"
gcc -O2 -Wall -o "$T/xgen" "$here/xgen.c" && gcc -O2 -Wall -pthread -o "$T/tapbench" "$here/tapbench.c" || exit 1
mk() { # (re)make the namespace with two taps and forwarding; $1: vnet_hdr or nothing
  ns_del_all; ns_add $RT || exit 1
  nx $RT sh -c 'echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6; echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6; echo 1 >/proc/sys/net/ipv4/ip_forward
    echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter; echo 0 >/proc/sys/net/ipv4/conf/default/rp_filter'
  local i; for i in 0 1; do
    ip -n $RT tuntap add pt$i mode tap ${1:-}; ip -n $RT link set pt$i address 02:00:00:00:0$((i+1)):00 txqueuelen 1000 up
    ip -n $RT addr add 198.18.$i.1/24 dev pt$i; done
  ip -n $RT neigh replace 198.18.1.2 lladdr 02:00:00:00:0f:0f dev pt1 nud permanent
}
for rep in $(seq "$REPS"); do
  echo "rep $rep"
  for v in "" vnet_hdr; do
    mk $v; placement; t=${v:+_vnet}; export VNET=${v:+1}
    for l in 64 1514; do
      record write${t}_$l "$(nx $RT "$T/tapbench" write pt0 $l "$SECS" 1)"
      nx $RT taskset -c 1 "$T/xgen" -m packet -i pt0 -l $l -t $((SECS + 2)) >"$T/x.out" 2>&1 & g=$!; PIDS+=("$g")
      record read${t}_$l "$(nx $RT "$T/tapbench" read pt0 "$SECS" 0)"; wait "$g"
      record fwd${t}_2cpu_$l "$(nx $RT "$T/tapbench" fwd pt0 pt1 $l "$SECS" 1 0)"
      record turn${t}_1cpu_$l "$(nx $RT "$T/tapbench" turn pt0 pt1 $l "$SECS" 1)"
    done
  done
done
report tap
