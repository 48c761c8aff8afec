#!/bin/bash
# A guest's virtio_user port (testpmd, CPU 1) at two vhost-user back ends in turn (CPU 0): DPDK's own (testpmd net_vhost)
# and ringroad's (crates/vhost_user/examples/vhost_port.rs). One way in each direction, and the loop guest -> port -> guest.
# Frames of 64 octets without FCS. Needs: dpdk gcc cargo, root. PORT: the built example, if it is not to be built here.
. "$(dirname "$0")/peers_lib.sh"
need dpdk-testpmd=dpdk gcc=gcc
if [ -z "${PORT:-}" ]; then
  cargo build -q --release -p ringroad-vhost-user --example vhost_port || exit 1
  PORT=${CARGO_TARGET_DIR:-$here/../../target}/release/examples/vhost_port
fi
hp_on 400 || exit 1

# plain: what a guest's driver gets by default; tuned: no mergeable buffers, in order, 1024 entries
PLAIN=
TUNED=,mrg_rxbuf=0,in_order=1,vectorized=1,queue_size=1024

guest() { tp_start guest 1 "--vdev net_virtio_user0,path=$T/v0.sock,queues=1$1" ""; }
guest_stop() { tp_stop guest; rm -f "$T/v0.sock"; }

# ours MODE: the example, which ends with the descriptor PIPE
ours() {
  rm -f "$T/v0.sock" "$T/port.in"; mkfifo "$T/port.in"; exec {PIPE}<>"$T/port.in"
  taskset -c 0 "$PORT" "$1" "$T/v0.sock" <"$T/port.in" >"$T/port.out" 2>&1 & OURS=$!; PIDS+=("$OURS")
  local i; for i in $(seq 50); do [ -S "$T/v0.sock" ] && return 0; sleep 0.1; done
  echo "vhost_port did not start: $(tail -1 "$T/port.out")"; return 1
}
ours_pps() { # median of the next whole seconds
  local l0; sleep 1; l0=$(grep -c '^pps ' "$T/port.out"); sleep $((SECS + 1)).3
  grep '^pps ' "$T/port.out" | tail -n +$((l0 + 1)) | awk '{print $2}' | sort -g | awk '{v[NR]=$1}END{print v[int((NR+1)/2)]}'
}
ours_stop() { stop "$OURS"; exec {PIPE}>&-; }

dpdk() { rm -f "$T/v0.sock"; tp_start host 0 "--vdev net_vhost0,iface=$T/v0.sock,queues=1" "--rxd=1024 --txd=1024"; }

one() { # tag options: both back ends, each way
  local tag=$1 vu=$2
  placement
  ours rx && guest "$vu" && { tp guest "set fwd txonly" start; record "guest_to_ringroad_${tag}_64" "$(ours_pps)"; guest_stop; }; ours_stop
  dpdk && guest "$vu" && { tp host "set fwd rxonly" start; tp guest "set fwd txonly" start; sleep 0.7
    record "guest_to_dpdk_${tag}_64" "$(tp_pps host 0 Rx "$SECS")"; guest_stop; }; tp_stop host
  placement
  ours tx && guest "$vu" && { tp guest "set fwd rxonly" start; sleep 0.7
    record "ringroad_to_guest_${tag}_64" "$(tp_pps guest 0 Rx "$SECS")"; guest_stop; }; ours_stop
  dpdk && guest "$vu" && { tp guest "set fwd rxonly" start; tp host "set txpkts 64" "set fwd txonly" start; sleep 0.7
    record "dpdk_to_guest_${tag}_64" "$(tp_pps guest 0 Rx "$SECS")"; guest_stop; }; tp_stop host
  placement
  ours io && guest "$vu" && { tp guest "set fwd io" "start tx_first 8"; sleep 0.7
    record "loop_ringroad_${tag}_64" "$(tp_pps guest 0 Rx "$SECS")"; guest_stop; }; ours_stop
  dpdk && guest "$vu" && { tp host "set fwd io" start; tp guest "set fwd io" "start tx_first 8"; sleep 0.7
    record "loop_dpdk_${tag}_64" "$(tp_pps guest 0 Rx "$SECS")"; guest_stop; }; tp_stop host
}

for rep in $(seq "$REPS"); do
  echo "rep $rep"
  one plain "$PLAIN"
  one tuned "$TUNED"
done
report vhost
