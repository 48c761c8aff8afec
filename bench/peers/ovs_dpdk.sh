#!/bin/bash
# Open vSwitch with the DPDK userspace datapath: guest port 0 -> OVS -> guest port 1.
# OVS PMD on CPU 0; both guest ports (virtio_user, one polling generator+sink) on CPU 1.
# mac: NORMAL with a static FDB entry. route: dec_ttl + new MACs + output. Needs: openvswitch-switch-dpdk dpdk-dev gcc, root.
. "$(dirname "$0")/peers_lib.sh"
need ovs-vsctl=openvswitch-switch-dpdk /usr/include/dpdk/rte_eal.h=dpdk-dev gcc=gcc pkg-config=pkg-config ip=iproute2
VS=/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk; [ -x $VS ] || VS=ovs-vswitchd
echo "$($VS --version | tr '\n' ' '); PMD CPU 0, guests CPU 1; reps=$REPS"
hp_on 700 || exit 1
placement  # now, while nothing polls: OVS will keep CPU 0 busy
gcc -O3 -march=native -Wno-deprecated-declarations -o "$T/gensink" "$here/dpdk_gensink.c" \
  $(pkg-config --cflags --libs libdpdk) || exit 1
N=po$$; ns_add $N || exit 1
export OVS_RUNDIR=$T OVS_LOGDIR=$T OVS_DBDIR=$T OVS_SYSCONFDIR=$T
DB=unix:$T/db.sock
ovsdb-tool create "$T/conf.db" /usr/share/openvswitch/vswitch.ovsschema || exit 1
ovsdb-server "$T/conf.db" --remote="p$DB" --unixctl="$T/db.ctl" >"$T/db.out" 2>&1 & PIDS+=($!)
for i in $(seq 50); do [ -S "$T/db.sock" ] && break; sleep 0.1; done
vsctl() { ovs-vsctl --db="$DB" --timeout=20 "$@"; }
vsctl --no-wait init
vsctl --no-wait set Open_vSwitch . other_config:dpdk-init=true other_config:pmd-cpu-mask=0x1 \
  other_config:dpdk-lcore-mask=0x1 other_config:dpdk-socket-mem=512 \
  other_config:dpdk-extra="--no-pci --no-telemetry --huge-dir $HP_MNT --file-prefix ovs$$"
ip netns exec $N taskset -c 0 $VS "$DB" --unixctl="$T/vs.ctl" --log-file="$T/vs.log" >"$T/vs.out" 2>&1 & PIDS+=($!)
for i in $(seq 100); do [ -S "$T/vs.ctl" ] && break; sleep 0.1; done
vsctl add-br br0 -- set bridge br0 datapath_type=netdev || exit 1
for i in 0 1; do
  vsctl add-port br0 v$i -- set interface v$i type=dpdkvhostuserclient options:vhost-server-path="$T/g$i.sock" || exit 1
done
of() { ovs-ofctl "$@"; }
run() { # tag "virtio_user options" size
  local tag=$1 vu=$2 sz=$3 m g i l0 v
  rm -f "$T"/g[01].sock
  taskset -c 1 "$T/gensink" --lcores 0@1 --no-pci --no-telemetry --file-prefix "og$$" \
    --huge-dir "$HP_MNT" --single-file-segments -m 128 \
    --vdev "net_virtio_user0,path=$T/g0.sock,server=1,queues=1$vu" --vdev "net_virtio_user1,path=$T/g1.sock,server=1,queues=1$vu" \
    -- 0 1 "$sz" 120 198.18.1.2 02:00:00:00:01:00 >"$T/gs.out" 2>&1 & g=$!; PIDS+=("$g")
  for i in $(seq 100); do grep -q ready "$T/gs.out" && break; sleep 0.1; done
  sleep 1
  for m in mac route; do
    of del-flows br0
    if [ $m = mac ]; then
      of add-flow br0 actions=NORMAL; ovs-appctl -t "$T/vs.ctl" fdb/add br0 v1 0 02:00:00:00:01:00 >/dev/null
    else
      of add-flow br0 "ip,in_port=v0,nw_dst=198.18.1.0/24,actions=dec_ttl,mod_dl_src:02:00:00:00:0a:01,mod_dl_dst:02:00:00:00:01:00,output:v1"
    fi
    sleep 2; l0=$(grep -c '^rx ' "$T/gs.out"); sleep $((SECS + 1)).3
    v=$(grep '^rx ' "$T/gs.out" | tail -n +$((l0 + 1)) | awk '{print $2}' | sort -g | awk '{v[NR]=$1}END{print v[int((NR+1)/2)]}')
    record "${m}_${tag}_$sz" "$v"
  done
  stop "$g"; sleep 1
}
TUNED=,packed_vq=1,vectorized=1,mrg_rxbuf=0,in_order=1,queue_size=1024
for rep in $(seq "$REPS"); do
  echo "rep $rep"; run plain "" 64; run tuned "$TUNED" 64; run plain "" 1514
done
report ovs_dpdk
