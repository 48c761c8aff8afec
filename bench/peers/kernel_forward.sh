#!/bin/bash
# Linux IPv4 forwarding between two veth pairs in network namespaces; counts at the last veth.
# Generator on CPU 1. _1cpu: all on CPU 1. _2cpu: forwarding on CPU 0 (RPS or threaded NAPI).
# _packet: AF_PACKET generator; _redir/_pass: live XDP frames. Needs: iproute2 ethtool gcc clang libbpf-dev, root.
. "$(dirname "$0")/peers_lib.sh"; . "$here/kernel_lib.sh"
# Frames are 64 octets without FCS unless the name says 1514.
need ip=iproute2 ethtool=ethtool gcc=gcc
echo "Linux $(uname -r); $(ip -V); generator CPU 1; reps=$REPS"
build; topo; route
D="-d 02:00:00:00:01:00 -D 198.18.1.2"
for rep in $(seq "$REPS"); do
  echo "rep $rep"
  # skb path, one CPU
  gro $RT pa1 off; rps $RT pa1 0
  meas ip_1cpu_packet_64 $G 1 $S pb1 -m packet -i pa0 $D
  meas ip_1cpu_pass_64 $RT 1 $S pb1 -m pass -i pa1 $D
  meas ip_1cpu_pass_1514 $RT 1 $S pb1 -m pass -i pa1 -l 1514 $D
  # skb path, RPS to CPU 0
  rps $RT pa1 1
  meas ip_2cpu_rps_packet_64 $G 1 $S pb1 -m packet -i pa0 $D
  rps $RT pa1 0
  # NAPI (veth GRO switch on; nothing is aggregated: plain UDP)
  gro $RT pa1 on
  meas ip_1cpu_napi_redir_64 $G 1 $S pb1 -m redir -i pa0 $D
  napi_cpu $RT pa1 on
  tso $G pa0 off; meas ip_2cpu_napithr_notso_packet_64 $G 1 $S pb1 -m packet -i pa0 $D; tso $G pa0 on
  meas ip_2cpu_napithr_redir_64 $G 1 $S pb1 -m redir -i pa0 $D
  meas ip_2cpu_napithr_redir_1514 $G 1 $S pb1 -m redir -i pa0 -l 1514 $D
  napi_cpu $RT pa1 off; gro $RT pa1 off
  # XDP: bpf_fib_lookup + bpf_redirect, sink drops in XDP
  if [ -f "$T/xdp.o" ]; then
    if ip -n $RT link set dev pa1 xdp obj "$T/xdp.o" program fwd && ip -n $S link set dev pb1 xdp obj "$T/xdp.o" program sink; then
      meas xdp_1cpu_redir_64 $G 1 $S pb1 -m redir -i pa0 $D
      meas xdp_1cpu_packet_64 $G 1 $S pb1 -m packet -i pa0 $D
      napi_cpu $RT pa1 on
      meas xdp_2cpu_napithr_redir_64 $G 1 $S pb1 -m redir -i pa0 $D
      meas xdp_2cpu_napithr_redir_1514 $G 1 $S pb1 -m redir -i pa0 -l 1514 $D
      meas xdp_2cpu_napithr_packet_64 $G 1 $S pb1 -m packet -i pa0 $D
      napi_cpu $RT pa1 off
    fi
    ip -n $RT link set dev pa1 xdp off; ip -n $S link set dev pb1 xdp off
  fi
done
report kernel_fwd
