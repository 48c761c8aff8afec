# veth topology and measuring functions for the kernel peers; sourced after peers_lib.sh
G=pg$$ RT=pr$$ S=ps$$
nx() { ip netns exec "$@"; }
build() {
  gcc -O2 -o "$T/xgen" "$here/xgen.c" || exit 1
  clang -O2 -g -target bpf -I/usr/include/"$(gcc -dumpmachine)" -c "$here/xdp_fwd.bpf.c" -o "$T/xdp.o" || echo "no clang: XDP cases skipped"
}
# gen ns: pa0 == pa1 : router ns : pb0 == pb1 : sink ns; no IPv6, fixed MACs
topo() {
  ns_add $G && ns_add $RT && ns_add $S || exit 1
  local n; for n in $G $RT $S; do nx $n sh -c 'echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6; echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
    echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter; echo 0 >/proc/sys/net/ipv4/conf/default/rp_filter'; done
  ip -n $G link add pa0 type veth peer name pa1 netns $RT
  ip -n $RT link add pb0 type veth peer name pb1 netns $S
  ip -n $RT link set pa1 address 02:00:00:00:01:00
  ip -n $S link set pb1 address 02:00:00:00:02:00
  ip -n $G link set pa0 up; ip -n $RT link set pa1 up; ip -n $RT link set pb0 up; ip -n $S link set pb1 up
}
route() { # 198.18.0.0/24 on pa1, 198.18.1.0/24 on pb0; the next hop's MAC is not pb1's, so pb1 drops early
  nx $RT sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
  ip -n $RT addr add 198.18.0.1/24 dev pa1; ip -n $RT addr add 198.18.1.1/24 dev pb0
  ip -n $RT neigh replace 198.18.1.2 lladdr 02:00:00:00:0f:0f dev pb0 nud permanent
}
napi_cpu() { # NS IFACE on|off : threaded NAPI, thread on CPU 0
  local p
  if [ "$3" = on ]; then
    nx "$1" sh -c "echo 1 >/sys/class/net/$2/threaded" || return 1
    for p in /proc/[0-9]*; do case "$(cat "$p/comm" 2>/dev/null)" in napi/$2-*) taskset -pc 0 "${p#/proc/}" >/dev/null;; esac; done
  else nx "$1" sh -c "echo 0 >/sys/class/net/$2/threaded"; fi
}
gro() { nx "$1" ethtool -K "$2" gro "$3"; }
tso() { nx "$1" ethtool -K "$2" tso "$3"; }   # with TSO on at the sender, veth skips the peer's NAPI for skbs
rps() { nx "$1" sh -c "echo $3 >/sys/class/net/$2/queues/rx-0/rps_cpus"; }
cnt() { nx "$1" cat "/sys/class/net/$2/statistics/rx_packets"; }
# meas KEY GEN-NS GEN-CPU SINK-NS SINK-IF xgen-args...
meas() {
  local key=$1 gns=$2 cpu=$3 sns=$4 sif=$5 g c0 c1 t0 t1 v; shift 5
  placement
  nx "$gns" taskset -c "$cpu" "$T/xgen" -t $((SECS + 1)) "$@" >"$T/xgen.out" 2>&1 & g=$!; PIDS+=("$g")
  sleep 0.6; c0=$(cnt "$sns" "$sif"); t0=$EPOCHREALTIME; sleep "$SECS"; c1=$(cnt "$sns" "$sif"); t1=$EPOCHREALTIME
  wait "$g"
  v=$(awk "BEGIN{printf \"%.0f\",($c1-$c0)/($t1-$t0)}")
  record "$key" "$v"; echo "    $(cat "$T/xgen.out")"
}
