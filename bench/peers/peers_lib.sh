# Common parts of all peer scripts: results, processes, namespaces, huge pages. Sourced, not run.
set -u
[ "$(id -u)" = 0 ] || { echo "needs root"; exit 1; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
T=$(mktemp -d)
REPS=${REPS:-5}     # runs of each measurement
SECS=${SECS:-2}     # seconds per run
PIDS=(); NSES=(); HP_OLD=; HP_MNT=; C2C=; declare -A FD

declare -A R P      # rates (pps) and placements (ns) by measurement
# need FILE=PACKAGE...: if files or commands are missing, prints the Debian packages that provide them, and
# exits
need() {
  local w f p="" ; for w in "$@"; do f=${w%%=*}
    case $f in /*) [ -e "$f" ];; *) command -v "$f" >/dev/null;; esac || p="$p ${w#*=}"; done
  [ -z "$p" ] || { echo "missing: apt-get install$(printf '%s\n' $p | sort -u | sed 's/^/ /' | tr -d '\n')"; exit 1; }
}
# record NAME PPS: stores one measurement, with the placement measured before it; an empty one is not counted
record() {
  [ -n "${2:-}" ] || { echo "  $1: no figure"; return; }
  R[$1]="${R[$1]:-} $2"; P[$1]="${P[$1]:-} ${C2C:-}"
  echo "  $1 $2 c2c=$C2C"
}
# middle NUMBER...: prints their median
middle() { printf '%s\n' "$@" | sort -g | awk '{v[NR]=$1} END{if(NR) print (NR%2)?v[(NR+1)/2]:(v[NR/2]+v[NR/2+1])/2}'; }
# report PREFIX: prints a RESULT line for every measurement, in Mpps
report() {
  local k c; for k in $(printf '%s\n' "${!R[@]}" | sort); do
    c=$(middle ${P[$k]})
    printf '%s\n' ${R[$k]} | sort -g | awk -v n="$1_$k" -v c="$c" '{v[NR]=$1} END{
      m=(NR%2)?v[(NR+1)/2]:(v[NR/2]+v[NR/2+1])/2
      printf "RESULT name=%s unit=mpps median=%.4f min=%.4f max=%.4f n=%d%s\n",n,m/1e6,v[1]/1e6,v[NR]/1e6,NR,(c==""?"":" c2c_ns=" c)}'
  done
}
# stop PID: sends TERM, then KILL after 3 s; only to our own children: another process may have the number of one that has ended
stop() {
  local p=$1 i
  grep -qs "^PPid:[[:space:]]*$$\$" "/proc/$p/status" || return 0
  kill -TERM "$p" 2>/dev/null || return 0
  for i in $(seq 30); do kill -0 "$p" 2>/dev/null || break; sleep 0.1; done
  kill -KILL "$p" 2>/dev/null; wait "$p" 2>/dev/null
  return 0
}
ns_add() { ip netns add "$1" && NSES+=("$1") && ip -n "$1" link set lo up; }
ns_del_all() { local n; for n in "${NSES[@]:-}"; do [ -n "$n" ] && ip netns del "$n" 2>/dev/null; done; NSES=(); }
# placement: measures the cache-line round trip CPU 0 <-> CPU 1 (the hypervisor may move virtual CPUs)
placement() {
  [ -x "$T/c2c" ] || gcc -O2 -pthread -o "$T/c2c" "$here/c2c.c" || return 0
  C2C=$(timeout 5 "$T/c2c" 0 1 5 | tr ' ' '\n' | grep '[0-9]' | sort -n | sed -n 3p)
}
# hp_on PAGES: reserves 2 MiB huge pages and mounts a private hugetlbfs
hp_on() {
  HP_OLD=$(cat /proc/sys/vm/nr_hugepages)
  echo $((HP_OLD + $1)) > /proc/sys/vm/nr_hugepages
  local free; free=$(awk '/^HugePages_Free/{print $2}' /proc/meminfo)
  [ "$free" -ge "$1" ] || { echo "needs $1 free huge pages of 2 MiB, the kernel gave $free"; return 1; }
  HP_MNT=$T/huge; mkdir -p "$HP_MNT"; mount -t hugetlbfs none "$HP_MNT"
}
cleanup() {
  local p fd
  for p in "${PIDS[@]:-}"; do [ -n "$p" ] && stop "$p"; done
  for fd in "${FD[@]:-}"; do [ -n "$fd" ] && exec {fd}>&-; done
  ns_del_all
  [ -n "$HP_MNT" ] && umount "$HP_MNT" 2>/dev/null
  [ -n "$HP_OLD" ] && echo "$HP_OLD" > /proc/sys/vm/nr_hugepages
  for p in gs l3 og ovs host guest rt nul rng; do rm -rf "/var/run/dpdk/$p$$"; done
  [ -n "${KEEP:-}" ] || rm -rf "$T"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# --- testpmd driven through a FIFO ---
# tp_start NAME CPU "EAL args" "testpmd args"
tp_start() {
  local n=$1 cpu=$2 eal=$3 args=$4 fd
  rm -f "$T/$n.in"; mkfifo "$T/$n.in"; exec {fd}<>"$T/$n.in"; FD[$n]=$fd
  taskset -c "$cpu" stdbuf -oL dpdk-testpmd --lcores "0@$cpu,1@$cpu" --no-pci --no-telemetry \
    --file-prefix "$n$$" --huge-dir "$HP_MNT" --single-file-segments -m "${TP_MEM:-192}" $eal \
    -- -i --nb-cores=1 --total-num-mbufs="${TP_MBUFS:-16384}" $args <"$T/$n.in" >"$T/$n.out" 2>&1 &
  eval "TP_$n=$!"; PIDS+=($!)
  local i; for i in $(seq 100); do grep -q 'testpmd>' "$T/$n.out" && return 0; sleep 0.1; done
  echo "testpmd $n did not start" >&2; tail -5 "$T/$n.out" >&2; return 1
}
tp() { local n=$1; shift; printf '%s\n' "$@" >&"${FD[$n]}"; }
# tp_pps NAME PORT Rx|Tx SECS -> pps between two shows
tp_pps() {
  local n=$1 port=$2 dir=$3 s=$4 off
  tp "$n" "show port stats $port"; sleep "$s"
  off=$(stat -c %s "$T/$n.out"); tp "$n" "show port stats $port"; sleep 0.3
  tail -c +$((off+1)) "$T/$n.out" | awk -v k="$dir-pps:" '{for(i=1;i<NF;i++) if($i==k) v=$(i+1)} END{print v}'
}
tp_stop() {
  local n=$1 p fd; eval "p=\$TP_$n"
  tp "$n" stop quit; local i; for i in $(seq 30); do kill -0 "$p" 2>/dev/null || break; sleep 0.1; done
  stop "$p"; fd=${FD[$n]}; exec {fd}>&-; unset "FD[$n]"
}
