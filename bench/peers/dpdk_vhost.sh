#!/bin/bash
# DPDK vhost-user <-> virtio_user on two cores: host/generator on CPU 0, guest/router on CPU 1.
# Frames: 64 and 1514 octets without FCS. TESTS: any of "p2p router null" (default all); ROUTERS: "io mac l3fwd".
# Needs: dpdk dpdk-dev dpdk-doc (the sources of l3fwd) gcc make pkg-config, root.
. "$(dirname "$0")/peers_lib.sh"
need dpdk-testpmd=dpdk /usr/include/dpdk/rte_eal.h=dpdk-dev gcc=gcc make=make pkg-config=pkg-config
EX=${DPDK_EXAMPLES:-$(pkg-config --variable=prefix libdpdk)/share/dpdk/examples}
echo "DPDK $(pkg-config --modversion libdpdk); host/gen CPU 0, guest/router CPU 1; reps=$REPS"
hp_on 500 || exit 1
gcc -O3 -march=native -Wno-deprecated-declarations -o "$T/gensink" "$here/dpdk_gensink.c" \
  $(pkg-config --cflags --libs libdpdk) || exit 1

# l3fwd: virtio has no IPv4 checksum RX offload, so the request for it is removed
L3=
if [ -d "$EX/l3fwd" ]; then
  cp -r "$EX/l3fwd" "$EX/common" "$T/"
  sed -i 's/\.offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM,/.offloads = 0,/' "$T/l3fwd/main.c"
  if make -s -C "$T/l3fwd" >"$T/l3make.log" 2>&1; then L3=$T/l3fwd/build/l3fwd
  else echo "l3fwd does not build: $(grep -m1 -i error "$T/l3make.log" || tail -1 "$T/l3make.log")"; fi
  printf 'R198.18.0.0/24 0\nR198.18.1.0/24 1\n' > "$T/v4.cfg"
  printf 'R2001:0200:0000:0000:0000:0000:0000:0000/64 0\n' > "$T/v6.cfg"
else
  echo "no l3fwd: its sources are not in $EX: apt-get install dpdk-doc"
fi

# mode TX-side RX-side fwd... : set the modes, start the receiver first
measure() { # key rxproc rxcmds txproc txcmds
  local key=$1 rx=$2 rxm=$3 txp=$4 txm=$5
  tp "$rx" "set fwd $rxm" start; sleep 0.2
  tp "$txp" "set fwd $txm" "${6:-start}"; sleep 0.7
  record "$key" "$(tp_pps "$rx" 0 Rx "$SECS")"
  tp "$txp" stop; sleep 0.2; tp "$rx" stop; sleep 0.2
}

p2p() { # tag "virtio_user options" sizes
  local tag=$1 vu=$2 sizes=$3 sz
  rm -f "$T/v0.sock"; placement
  tp_start host 0 "--vdev net_vhost0,iface=$T/v0.sock,queues=1" "--rxd=1024 --txd=1024" || return
  tp_start guest 1 "--vdev net_virtio_user0,path=$T/v0.sock,queues=1$vu" "" || return
  sleep 0.5
  for sz in $sizes; do
    tp host "set txpkts $sz"; tp guest "set txpkts $sz"
    measure "guest_to_host_${tag}_$sz" host rxonly guest txonly
    measure "host_to_guest_${tag}_$sz" guest rxonly host txonly
  done
  tp host "set txpkts 64"
  measure "loop_host_io_guest_io_${tag}_64" guest io host io "start tx_first 8"
  measure "loop_host_io_guest_macswap_${tag}_64" guest macswap host io "start tx_first 8"
  tp_stop guest; tp_stop host
}

gen_start() { # size ; vhost ports 0 (tx) and 1 (rx) on CPU 0
  placement
  rm -f "$T"/v[01].sock
  taskset -c 0 "$T/gensink" --lcores 0@0 --no-pci --no-telemetry --file-prefix "gs$$" \
    --huge-dir "$HP_MNT" --single-file-segments -m 128 \
    --vdev "net_vhost0,iface=$T/v0.sock,queues=1" --vdev "net_vhost1,iface=$T/v1.sock,queues=1" \
    -- 0 1 "$1" 60 198.18.1.2 02:00:00:00:01:00 >"$T/gs.out" 2>&1 &
  GEN=$!; PIDS+=("$GEN")
  local i; for i in $(seq 50); do grep -q ready "$T/gs.out" && return 0; sleep 0.1; done
  echo "  generator did not start: $(tail -1 "$T/gs.out")"; return 1
}
gen_read() { # rx pps, median of SECS+1 whole seconds from now on
  local l0; sleep 1; l0=$(grep -c '^rx ' "$T/gs.out"); sleep $((SECS + 1)).3
  tail -n +1 "$T/gs.out" | grep '^rx ' | tail -n +$((l0 + 1)) | awk '{print $2}' | sort -g | awk '{v[NR]=$1}END{print v[int((NR+1)/2)]}'
}
router() { # tag "virtio_user options" size modes
  local tag=$1 vu=$2 sz=$3 m
  for m in $4; do
    gen_start "$sz" || { stop "$GEN"; continue; }
    local v="--vdev net_virtio_user0,path=$T/v0.sock,queues=1$vu --vdev net_virtio_user1,path=$T/v1.sock,queues=1$vu"
    if [ "$m" = l3fwd ]; then
      [ -n "$L3" ] || { stop "$GEN"; continue; }
      taskset -c 1 "$L3" --lcores 1@1 --no-pci --no-telemetry --file-prefix "l3$$" --huge-dir "$HP_MNT" \
        --single-file-segments -m 256 $v -- -p 0x3 --config "(0,0,1),(1,0,1)" --parse-ptype \
        --rule_ipv4="$T/v4.cfg" --rule_ipv6="$T/v6.cfg" >"$T/l3.out" 2>&1 &
      local L=$!; PIDS+=("$L"); sleep 2
      record "router_l3fwd_lpm_${tag}_$sz" "$(gen_read)"; stop "$L"
    else
      tp_start rt 1 "$v" "--forward-mode=$m" || { stop "$GEN"; continue; }
      tp rt start; sleep 0.5
      record "router_testpmd_${m}_${tag}_$sz" "$(gen_read)"; tp_stop rt
    fi
    stop "$GEN"
  done
}
nulls() { # one core, no I/O at all: the upper bound of the forwarding loop
  local m off; C2C=
  tp_start nul 1 "--vdev net_null0,size=64 --vdev net_null1,size=64" "" || return
  for m in io mac; do
    tp nul "set fwd $m" start; sleep 0.5
    tp nul "show port stats all"; sleep "$SECS"; off=$(stat -c %s "$T/nul.out")
    tp nul "show port stats all"; sleep 0.3
    record "null_testpmd_${m}_64" "$(tail -c +$((off+1)) "$T/nul.out" | awk '{for(i=1;i<NF;i++) if($i=="Rx-pps:") s+=$(i+1)} END{printf "%.0f", s}')"
    tp nul stop; sleep 0.2
  done
  tp_stop nul
  tp_start rng 1 "--vdev net_ring0 --vdev net_ring1" "" || return
  tp rng "set fwd mac" "start tx_first 2"; sleep 0.5
  tp rng "show port stats all"; sleep "$SECS"; off=$(stat -c %s "$T/rng.out")
  tp rng "show port stats all"; sleep 0.3
  record "ring_testpmd_mac_64" "$(tail -c +$((off+1)) "$T/rng.out" | awk '{for(i=1;i<NF;i++) if($i=="Rx-pps:") s+=$(i+1)} END{printf "%.0f", s}')"
  tp_stop rng
}

# plain: split ring, mergeable buffers on, 256 entries (a guest driver's defaults)
# tuned: packed ring, vectorized, no mergeable buffers, in-order, 1024 entries
PLAIN=
TUNED=,packed_vq=1,vectorized=1,mrg_rxbuf=0,in_order=1,queue_size=1024
SPLITT=,vectorized=1,mrg_rxbuf=0,in_order=1,queue_size=1024
TESTS=${TESTS:-p2p router null} ROUTERS=${ROUTERS:-io mac l3fwd}
for rep in $(seq "$REPS"); do
  echo "rep $rep"
  case $TESTS in *p2p*)
    p2p plain "$PLAIN" "64 1514"; p2p tuned "$TUNED" "64";; esac
  case $TESTS in *router*)
    router plain "$PLAIN" 64 "$ROUTERS"; router tuned "$TUNED" 64 "$ROUTERS"
    [ -z "${SPLITVEC:-}" ] || router splitvec "$SPLITT" 64 "mac l3fwd"
    [ -n "${ONLY64:-}" ] || router plain "$PLAIN" 1514 "${ROUTERS#io }";; esac
  case $TESTS in *null*) nulls;; esac
done
report dpdk
