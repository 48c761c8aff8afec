#!/bin/bash
# Two routers behind the same generator (crates/vhost_user/examples/vhost_generator.rs, CPU 0), both on CPU 1 and reached by
# vhost-user: DPDK's l3fwd at two virtio_user ports, and a ringroad router whose NICs' rings are handed to the generator
# (`vhost-user-frontend:`). Frames of 60 octets without FCS, one flow, one direction. Each router has a generator of its own; all of
# them exist all the time, and one router and its generator are stopped (SIGSTOP) while the others are measured, so that
# quarter-second slices of ringroad and of DPDK alternate. Needs: dpdk dpdk-dev dpdk-doc gcc make pkg-config cargo, root. GENERATOR,
# RINGROAD: existing builds. TAGS: any of "plain tuned", for l3fwd's rings. OTHER: another build of ringroad, used instead of l3fwd.
. "$(dirname "$0")/peers_lib.sh"
TARGET=${CARGO_TARGET_DIR:-$here/../../target}
if [ -z "${GENERATOR:-}" ]; then
  cargo build -q --release -p ringroad-vhost-user --example vhost_generator || exit 1
  GENERATOR=$TARGET/release/examples/vhost_generator
fi
if [ -z "${RINGROAD:-}" ]; then cargo build -q --release || exit 1; RINGROAD=$TARGET/release/ringroad; fi
MAC=02:00:00:00:01:00

build_l3fwd() {
  need /usr/include/dpdk/rte_eal.h=dpdk-dev gcc=gcc make=make pkg-config=pkg-config
  local examples=${DPDK_EXAMPLES:-$(pkg-config --variable=prefix libdpdk)/share/dpdk/examples}
  [ -d "$examples/l3fwd" ] || { echo "no l3fwd: its sources are not in $examples: apt-get install dpdk-doc"; exit 1; }
  hp_on 500 || exit 1
  # virtio has no IPv4 checksum RX offload, so the request for it is removed
  cp -r "$examples/l3fwd" "$examples/common" "$T/"
  sed -i 's/\.offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM,/.offloads = 0,/' "$T/l3fwd/main.c"
  make -s -C "$T/l3fwd" >"$T/l3make.log" 2>&1 || { echo "l3fwd does not build: $(tail -1 "$T/l3make.log")"; exit 1; }
  printf 'R198.18.0.0/24 0\nR198.18.1.0/24 1\n' > "$T/v4.cfg"
  printf 'R2001:0200:0000:0000:0000:0000:0000:0000/64 0\n' > "$T/v6.cfg"
}
if [ -n "${OTHER:-}" ]; then TAGS=other; else build_l3fwd; fi

# config NAME: writes the file of a router at the sockets NAME.0 and NAME.1
config() {
cat > "$T/$1.toml" <<EOF
[[router]]
name = "bench-${1//_/-}"
spin = "always"
pin  = { vcpu = "1" }
[[router.nic]]
name = "in"
mac = "$MAC"
attach = "vhost-user-frontend:$T/$1.0"
address = "198.18.0.1/24"
[[router.nic]]
name = "out"
attach = "vhost-user-frontend:$T/$1.1"
address = "198.18.1.1/24"
[[router.neighbour]]
address = "198.18.1.2"
mac = "02:00:00:00:00:fe"
EOF
}
declare -A OPTIONS=([plain]= [tuned]=,vectorized=1,mrg_rxbuf=0,in_order=1,queue_size=1024)
declare -A PIDS_OF=() PIPES=()

go() { kill -CONT ${PIDS_OF[$1]}; }
halt() { kill -STOP ${PIDS_OF[$1]} 2>/dev/null; }
# a stopped process cannot exit
trap 'for r in "${!PIDS_OF[@]}"; do go "$r"; done 2>/dev/null; cleanup' EXIT

# generator NAME: starts a generator at the sockets NAME.0 and NAME.1
generator() {
  local fd; rm -f "$T/$1".[01] "$T/$1.in"; mkfifo "$T/$1.in"; exec {fd}<>"$T/$1.in"; PIPES[$1]=$fd
  taskset -c 0 "$GENERATOR" "$T/$1.0" "$T/$1.1" "$MAC" <"$T/$1.in" >"$T/$1.gen" 2>&1 & GEN=$!; PIDS+=("$GEN")
  local i; for i in $(seq 50); do [ -S "$T/$1.1" ] && return 0; sleep 0.1; done
  echo "the generator did not start: $(tail -1 "$T/$1.gen")"; return 1
}
l3fwd() { # options
  generator l3fwd || return
  taskset -c 1 "$T/l3fwd/build/l3fwd" --lcores 1@1 --no-pci --no-telemetry --file-prefix "l3$$" --huge-dir "$HP_MNT" \
    --single-file-segments -m 256 --vdev "net_virtio_user0,path=$T/l3fwd.0,queues=1$1" \
    --vdev "net_virtio_user1,path=$T/l3fwd.1,queues=1$1" -- -p 0x3 --config "(0,0,1),(1,0,1)" --parse-ptype \
    --rule_ipv4="$T/v4.cfg" --rule_ipv6="$T/v6.cfg" >"$T/l3.out" 2>&1 &
  ROUTER=$!; PIDS+=("$ROUTER"); sleep 2
  PIDS_OF[l3fwd]="$GEN $ROUTER"; halt l3fwd
}
ringroad() { # name, program
  generator "$1" || return
  config "$1"
  "$2" run "$T/$1.toml" --json >"$T/$1.out" 2>&1 & ROUTER=$!; PIDS+=("$ROUTER"); sleep 2
  # Supervisor and data plane.
  PIDS_OF[$1]="$GEN $ROUTER $(cat "/proc/$ROUTER/task/$ROUTER/children")"; halt "$1"
}
finish() { # name
  [ -n "${PIDS_OF[$1]:-}" ] || return 0
  local pids fd=${PIPES[$1]}; read -ra pids <<<"${PIDS_OF[$1]}"
  go "$1"; unset "PIDS_OF[$1]"; stop "${pids[1]}"; exec {fd}>&-; stop "${pids[0]}"
}
# slice NAME: measures the frames a second that come out of the router, into S
slice() {
  local before; go "$1"; sleep 0.1; before=$(grep -c '^total ' "$T/$1.gen")
  echo >&"${PIPES[$1]}"; sleep 0.25; echo >&"${PIPES[$1]}"; sleep 0.1; halt "$1"
  S=$(grep '^total ' "$T/$1.gen" | tail -n +$((before + 1)) | awk 'NR==1{n=$2; t=$4} NR==2{printf "%.0f", ($2-n)/($4-t)*1e9}')
}
# ratio NAME: prints median and 95 % interval (order statistics) of the numbers on the input
ratio() {
  sort -g | awk -v n="$1" '{v[NR]=$1} END{
    k=0; t=0.5^NR; s=t; while (s<=0.025) { k++; t=t*(NR-k+1)/k; s+=t }
    if (NR>=6) printf "RATIO %s median=%.3f ci95=%.3f..%.3f n=%d\n",n,(v[int((NR+1)/2)]+v[int(NR/2)+1])/2,v[k<1?1:k],v[NR+1-(k<1?1:k)],NR}'
}
one() { # tag
  local i a with=l3fwd; placement
  ringroad ringroad "$RINGROAD"
  if [ "$1" = other ]; then with=old; ringroad "$with" "$OTHER"; else l3fwd "${OPTIONS[$1]}"; fi
  if [ -n "${PIDS_OF[ringroad]:-}" ] && [ -n "${PIDS_OF[$with]:-}" ]; then
    for i in $(seq $((4 * SECS))); do
      slice ringroad; a=$S; slice "$with"
      [ -n "$a" ] && [ -n "$S" ] && [ "$S" -gt 0 ] || continue
      record "ringroad_beside_$1_60" "$a" >>"$T/slices"; record "${with}_$1_60" "$S" >>"$T/slices"
      awk -v a="$a" -v b="$S" 'BEGIN{print a/b}' >>"$T/ratio_$1_60"
    done
    echo "  $with $1: ringroad $a, $with $S, c2c=$C2C"
  fi
  finish ringroad; finish "$with"
}

for rep in $(seq "$REPS"); do
  echo "rep $rep"
  for tag in ${TAGS:-plain tuned}; do one "$tag"; done
done
report router_over_vhost_user
for file in "$T"/ratio_*; do [ -e "$file" ] && ratio "router_over_vhost_user_${file##*/ratio_}" <"$file"; done
exit 0
