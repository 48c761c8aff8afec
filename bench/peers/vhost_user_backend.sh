#!/bin/bash
# A guest's virtio_user port (testpmd, CPU 1) at two vhost-user backends (CPU 0): DPDK's own (testpmd net_vhost) and ringroad's
# (crates/vhost_user/examples/vhost_port.rs). Ways: each direction alone; the loop guest -> port -> guest -> port; and the route generator -> port ->
# guest -> port -> sink, where the guest has two ports and rewrites addresses (testpmd `mac`), and generator and sink are one thread on CPU 0
# (dpdk_gensink.c, and crates/vhost_user/examples/vhost_generator.rs). Frames of 64 octets without FCS. Each backend has a guest of its own; both
# pairs exist all the time, and one is stopped (SIGSTOP) while the other is measured, so that quarter-second slices of ringroad and of DPDK alternate.
# Both are read at the guest. Needs: dpdk dpdk-dev gcc pkg-config cargo, root. EXAMPLES: the folder of existing builds of the examples. OTHERS: the
# folder of another build of them, used instead of DPDK's backend. WAYS: any of "in out loop route"; TAGS: any of "plain tuned".
. "$(dirname "$0")/peers_lib.sh"
need dpdk-testpmd=dpdk /usr/include/dpdk/rte_eal.h=dpdk-dev gcc=gcc pkg-config=pkg-config
if [ -z "${EXAMPLES:-}" ]; then
  cargo build -q --release -p ringroad-vhost-user --examples || exit 1
  EXAMPLES=${CARGO_TARGET_DIR:-$here/../../target}/release/examples
fi
WAYS=${WAYS:-in out loop route} TAGS=${TAGS:-plain tuned}
hp_on 500 || exit 1
gcc -O3 -march=native -Wno-deprecated-declarations -o "$T/gensink" "$here/dpdk_gensink.c" \
  $(pkg-config --cflags --libs libdpdk) || exit 1

# plain: a guest driver's defaults; tuned: packed rings where they are offered (split ones elsewhere), vectorised where supported, no mergeable
# buffers, in order, 1024 entries
declare -A OPTIONS=([plain]= [tuned]=,packed_vq=1,vectorized=1,mrg_rxbuf=0,in_order=1,queue_size=1024)
# Roles by way of the frames: our port, DPDK's, the guest, and the guest's counter.
declare -A OURS=([in]=rx [out]=tx [loop]=io) THEIRS=([in]=rxonly [out]=txonly [loop]=io)
declare -A GUEST=([in]=txonly [out]=rxonly [loop]=io [route]=mac)
declare -A COUNT=([in]="0 Tx" [out]="0 Rx" [loop]="0 Rx" [route]="1 Tx")
THEM=dpdk; [ -z "${OTHERS:-}" ] || THEM=other
MAC=02:00:00:00:01:00

go() { kill -CONT "${PAIR[$1]% *}" "${PAIR[$1]#* }"; }
halt() { kill -STOP "${PAIR[$1]% *}" "${PAIR[$1]#* }" 2>/dev/null; }
declare -A PAIR=() PIPES=()
# a stopped process cannot exit
trap 'for p in "${!PAIR[@]}"; do go "$p"; done 2>/dev/null; cleanup' EXIT

# ours NAME FOLDER WAY: starts an example, which ends when its input closes
ours() {
  local fd words=("$2/vhost_port" "${OURS[$3]:-}" "$T/$1.0")
  [ "$3" != route ] || words=("$2/vhost_generator" "$T/$1.0" "$T/$1.1" "$MAC" 64)
  rm -f "$T/$1".[01] "$T/$1.in"; mkfifo "$T/$1.in"; exec {fd}<>"$T/$1.in"; PIPES[$1]=$fd
  taskset -c 0 "${words[@]}" <"$T/$1.in" >"$T/$1.log" 2>&1 & BACK=$!; PIDS+=("$BACK")
  local i; for i in $(seq 50); do [ -S "${words[-1]}" ] || [ -S "$T/$1.1" ] && return 0; sleep 0.1; done
  echo "${words[0]} did not start: $(tail -1 "$T/$1.log")"; return 1
}
# theirs WAY: starts testpmd, or the generator at two ports of the same driver
theirs() {
  rm -f "$T"/dpdk.[01]
  if [ "$1" != route ]; then
    tp_start host 0 "--vdev net_vhost0,iface=$T/dpdk.0,queues=1" "--rxd=1024 --txd=1024" || return
    BACK=$TP_host; tp host "set txpkts 64" "set fwd ${THEIRS[$1]}" start; return
  fi
  taskset -c 0 "$T/gensink" --lcores 0@0 --no-pci --no-telemetry --file-prefix "gs$$" --huge-dir "$HP_MNT" \
    --single-file-segments -m 128 --vdev "net_vhost0,iface=$T/dpdk.0,queues=1" --vdev "net_vhost1,iface=$T/dpdk.1,queues=1" \
    -- 0 1 64 3600 198.18.1.2 $MAC >"$T/gs.out" 2>&1 & BACK=$!; PIDS+=("$BACK")
  local i; for i in $(seq 50); do grep -q ready "$T/gs.out" && return 0; sleep 0.1; done
  echo "the generator did not start: $(tail -1 "$T/gs.out")"; return 1
}
# pair NAME TAG WAY: starts a backend and its guest, lets them exchange traffic, and stops both
pair() {
  local guest=og way=$3 vdevs="--vdev net_virtio_user0,path=$T/$1.0,queues=1${OPTIONS[$2]}"
  [ "$way" != route ] || vdevs="$vdevs --vdev net_virtio_user1,path=$T/$1.1,queues=1${OPTIONS[$2]}"
  [ "$1" = ringroad ] || guest=rt
  case $1 in
    ringroad) ours ringroad "$EXAMPLES" "$way" || return;;
    other) ours other "$OTHERS" "$way" || return;;
    dpdk) theirs "$way" || return;;
  esac
  tp_start $guest 1 "$vdevs" "" || return
  sleep 0.3
  tp $guest "set txpkts 64" "set fwd ${GUEST[$way]}" "$([ "$way" = loop ] && echo start tx_first 8 || echo start)"
  sleep 0.5
  local g; eval "g=\$TP_$guest"; PAIR[$1]="$BACK $g"; halt "$1"
}
unpair() { # name way
  local guest=og back=${PAIR[$1]% *}; [ "$1" = ringroad ] || guest=rt
  [ -n "${PAIR[$1]:-}" ] || return 0
  go "$1"; unset "PAIR[$1]"
  tp_stop $guest
  case $1,$2 in
    dpdk,route) stop "$back";;
    dpdk,*) tp_stop host;;
    *) local fd=${PIPES[$1]}; exec {fd}>&-; stop "$back";;
  esac
}
# slice NAME WAY: measures the guest's counter over a quarter of a second, into S
slice() {
  local guest=og off port=${COUNT[$2]% *}; [ "$1" = ringroad ] || guest=rt
  go "$1"; sleep 0.1; tp $guest "show port stats $port"; sleep 0.25
  off=$(stat -c %s "$T/$guest.out"); tp $guest "show port stats $port"; sleep 0.1; halt "$1"
  S=$(tail -c +$((off + 1)) "$T/$guest.out" | awk -v k="${COUNT[$2]#* }-pps:" '{for(i=1;i<NF;i++) if($i==k) v=$(i+1)} END{print v}')
}
# ratio NAME: prints median and 95 % interval (order statistics) of the numbers on the input
ratio() {
  sort -g | awk -v n="$1" '{v[NR]=$1} END{
    k=0; t=0.5^NR; s=t; while (s<=0.025) { k++; t=t*(NR-k+1)/k; s+=t }
    if (NR>=6) printf "RATIO %s median=%.3f ci95=%.3f..%.3f n=%d\n",n,(v[int((NR+1)/2)]+v[int(NR/2)+1])/2,v[k<1?1:k],v[NR+1-(k<1?1:k)],NR}'
}
one() { # tag way
  local tag=$1 way=$2 i a key=${1}_64
  placement
  pair ringroad "$tag" "$way"; pair $THEM "$tag" "$way"
  if [ -n "${PAIR[ringroad]:-}" ] && [ -n "${PAIR[$THEM]:-}" ]; then
    for i in $(seq $((4 * SECS))); do
      slice ringroad "$way"; a=$S; slice $THEM "$way"
      [ -n "$a" ] && [ -n "$S" ] && [ "$S" -gt 0 ] || continue
      record "${way}_ringroad_$key" "$a" >>"$T/slices"; record "${way}_${THEM}_$key" "$S" >>"$T/slices"
      awk -v a="$a" -v b="$S" 'BEGIN{print a/b}' >>"$T/ratio_${way}_$key"
    done
    echo "  $way $tag: ringroad $a, $THEM $S, c2c=$C2C"
  fi
  unpair ringroad "$way"; unpair $THEM "$way"
}

for rep in $(seq "$REPS"); do
  echo "rep $rep"
  for tag in $TAGS; do for way in $WAYS; do one "$tag" "$way"; done; done
done
report vhost
for file in "$T"/ratio_*; do [ -e "$file" ] && ratio "vhost_${file##*/ratio_}" <"$file"; done
exit 0
