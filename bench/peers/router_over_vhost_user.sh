#!/bin/bash
# Two routers behind the same generator (crates/vhost_user/examples/vhost_generator.rs, CPU 0), both on CPU 1 and reached by
# vhost-user: DPDK's l3fwd at two virtio_user ports, and a ringroad router whose NICs' rings are handed to the generator
# (`vhost-user-frontend:`). Frames of 60 octets without FCS, one flow, one way. Needs: dpdk dpdk-dev dpdk-doc gcc make pkg-config
# cargo, root. GENERATOR, RINGROAD: what is built already.
. "$(dirname "$0")/peers_lib.sh"
need /usr/include/dpdk/rte_eal.h=dpdk-dev gcc=gcc make=make pkg-config=pkg-config
EX=${DPDK_EXAMPLES:-$(pkg-config --variable=prefix libdpdk)/share/dpdk/examples}
[ -d "$EX/l3fwd" ] || { echo "no l3fwd: its sources are not in $EX: apt-get install dpdk-doc"; exit 1; }
TARGET=${CARGO_TARGET_DIR:-$here/../../target}
if [ -z "${GENERATOR:-}" ]; then
  cargo build -q --release -p ringroad-vhost-user --example vhost_generator || exit 1
  GENERATOR=$TARGET/release/examples/vhost_generator
fi
if [ -z "${RINGROAD:-}" ]; then cargo build -q --release || exit 1; RINGROAD=$TARGET/release/ringroad; fi
hp_on 500 || exit 1
MAC=02:00:00:00:01:00

# virtio has no IPv4 checksum RX offload, so that one request is taken out
cp -r "$EX/l3fwd" "$EX/common" "$T/"
sed -i 's/\.offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM,/.offloads = 0,/' "$T/l3fwd/main.c"
make -s -C "$T/l3fwd" >"$T/l3make.log" 2>&1 || { echo "l3fwd does not build: $(tail -1 "$T/l3make.log")"; exit 1; }
printf 'R198.18.0.0/24 0\nR198.18.1.0/24 1\n' > "$T/v4.cfg"
printf 'R2001:0200:0000:0000:0000:0000:0000:0000/64 0\n' > "$T/v6.cfg"
cat > "$T/ours.toml" <<EOF
[[router]]
name = "bench-vu"
spin = "always"
pin  = { vcpu = "1" }
[[router.nic]]
name = "in"
mac = "$MAC"
attach = "vhost-user-frontend:$T/v0.sock"
address = "198.18.0.1/24"
[[router.nic]]
name = "out"
attach = "vhost-user-frontend:$T/v1.sock"
address = "198.18.1.1/24"
[[router.neighbour]]
address = "198.18.1.2"
mac = "02:00:00:00:00:fe"
EOF

gen_start() {
  placement
  rm -f "$T"/v[01].sock "$T/gen.in"; mkfifo "$T/gen.in"; exec {PIPE}<>"$T/gen.in"
  taskset -c 0 "$GENERATOR" "$T/v0.sock" "$T/v1.sock" "$MAC" <"$T/gen.in" >"$T/gen.out" 2>&1 & GEN=$!; PIDS+=("$GEN")
  local i; for i in $(seq 50); do [ -S "$T/v1.sock" ] && return 0; sleep 0.1; done
  echo "the generator did not start: $(tail -1 "$T/gen.out")"; return 1
}
gen_read() { # median of the next whole seconds
  local l0; sleep 1; l0=$(grep -c '^rx ' "$T/gen.out"); sleep $((SECS + 1)).3
  grep '^rx ' "$T/gen.out" | tail -n +$((l0 + 1)) | awk '{print $2}' | sort -g | awk '{v[NR]=$1}END{print v[int((NR+1)/2)]}'
}
gen_stop() { stop "$GEN"; exec {PIPE}>&-; }

l3fwd() { # tag options
  gen_start || return
  taskset -c 1 "$T/l3fwd/build/l3fwd" --lcores 1@1 --no-pci --no-telemetry --file-prefix "l3$$" --huge-dir "$HP_MNT" \
    --single-file-segments -m 256 --vdev "net_virtio_user0,path=$T/v0.sock,queues=1$2" \
    --vdev "net_virtio_user1,path=$T/v1.sock,queues=1$2" -- -p 0x3 --config "(0,0,1),(1,0,1)" --parse-ptype \
    --rule_ipv4="$T/v4.cfg" --rule_ipv6="$T/v6.cfg" >"$T/l3.out" 2>&1 &
  local L=$!; PIDS+=("$L"); sleep 2
  record "l3fwd_$1_60" "$(gen_read)"; stop "$L"; gen_stop
}
ours() {
  gen_start || return
  "$RINGROAD" run "$T/ours.toml" --json >"$T/ours.out" 2>&1 &
  local L=$!; PIDS+=("$L"); sleep 2
  record "ringroad_60" "$(gen_read)"; stop "$L"; gen_stop
}

for rep in $(seq "$REPS"); do
  echo "rep $rep"
  l3fwd plain ""
  ours
  l3fwd tuned ",vectorized=1,mrg_rxbuf=0,in_order=1,queue_size=1024"
  ours
done
report router_over_vhost_user
