#!/bin/bash
# Linux bridge between two veth pairs, a plain veth pair, and macvlan (bridge mode).
# Generator on CPU 1; _2cpu: receive work on CPU 0 (RPS or threaded NAPI). Needs: iproute2 ethtool gcc, root.
. "$(dirname "$0")/peers_lib.sh"; . "$here/kernel_lib.sh"
need ip=iproute2 ethtool=ethtool gcc=gcc
echo "Linux $(uname -r); $(ip -V); generator CPU 1; reps=$REPS"
build; topo
ip -n $RT link add br0 type bridge stp_state 0 mcast_snooping 0
ip -n $RT link set pa1 master br0; ip -n $RT link set pb0 master br0; ip -n $RT link set br0 up
bridge -n $RT fdb replace 02:00:00:00:0f:0f dev pb0 master static
# macvlan: two endpoints of one parent
ip -n $RT link add md0 type veth peer name md1; ip -n $RT link set md0 up; ip -n $RT link set md1 up
ip -n $RT link add link md0 name mv0 netns $G type macvlan mode bridge
ip -n $RT link add link md0 name mv1 netns $S address 02:00:00:00:03:00 type macvlan mode bridge
ip -n $G link set mv0 up; ip -n $S link set mv1 up
# plain pair
ip -n $G link add pc0 type veth peer name pc1 netns $S; ip -n $G link set pc0 up; ip -n $S link set pc1 up
E="-e 0x88b5"   # unknown ethertype: dropped right after delivery
B="-d 02:00:00:00:0f:0f $E"
sleep 1
for rep in $(seq "$REPS"); do
  echo "rep $rep"
  gro $RT pa1 off; rps $RT pa1 0
  meas bridge_1cpu_packet_64 $G 1 $S pb1 -m packet -i pa0 $B
  meas bridge_1cpu_pass_64 $RT 1 $S pb1 -m pass -i pa1 $B
  meas bridge_1cpu_pass_1514 $RT 1 $S pb1 -m pass -i pa1 -l 1514 $B
  rps $RT pa1 1; meas bridge_2cpu_rps_packet_64 $G 1 $S pb1 -m packet -i pa0 $B; rps $RT pa1 0
  gro $RT pa1 on; napi_cpu $RT pa1 on
  tso $G pa0 off; meas bridge_2cpu_napithr_notso_packet_64 $G 1 $S pb1 -m packet -i pa0 $B; tso $G pa0 on
  meas bridge_2cpu_napithr_redir_64 $G 1 $S pb1 -m redir -i pa0 $B
  meas bridge_2cpu_napithr_redir_1514 $G 1 $S pb1 -m redir -i pa0 -l 1514 $B
  napi_cpu $RT pa1 off; gro $RT pa1 off
  gro $S pc1 off; rps $S pc1 0
  meas veth_1cpu_packet_64 $G 1 $S pc1 -m packet -i pc0 $B
  meas veth_1cpu_packet_1514 $G 1 $S pc1 -m packet -i pc0 -l 1514 $B
  rps $S pc1 1; meas veth_2cpu_rps_packet_64 $G 1 $S pc1 -m packet -i pc0 $B; rps $S pc1 0
  gro $S pc1 on; napi_cpu $S pc1 on
  tso $G pc0 off; meas veth_2cpu_napithr_notso_packet_64 $G 1 $S pc1 -m packet -i pc0 $B; tso $G pc0 on
  meas veth_2cpu_napithr_redir_64 $G 1 $S pc1 -m redir -i pc0 $B
  napi_cpu $S pc1 off; gro $S pc1 off
  if [ -f "$T/xdp.o" ] && ip -n $S link set dev pc1 xdp obj "$T/xdp.o" program sink; then
    meas veth_xdpdrop_1cpu_redir_64 $G 1 $S pc1 -m redir -i pc0 $B
    ip -n $S link set dev pc1 xdp off
  fi
  meas macvlan_1cpu_packet_64 $G 1 $S mv1 -m packet -i mv0 -d 02:00:00:00:03:00 $E
  meas macvlan_1cpu_packet_1514 $G 1 $S mv1 -m packet -i mv0 -l 1514 -d 02:00:00:00:03:00 $E
done
report kernel
