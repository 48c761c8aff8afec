#!/bin/bash
# Runs every peer ROUNDS times, one repetition each, in turn, and prints the median, min and max over the rounds.
cd "$(dirname "$0")" || exit 1
L=$(mktemp); trap 'rm -f "$L"' EXIT
for r in $(seq "${ROUNDS:-5}"); do
  for s in ${PEERS:-kernel_forward kernel_bridge tap ovs_dpdk dpdk_vhost}; do
    echo "# round $r $s $(date +%T)"; REPS=1 SECS=${SECS:-1} bash ./$s.sh 2>&1 | tee -a "$L"
  done
done
echo "# all rounds"
grep '^RESULT' "$L" | tr '=' ' ' | awk '{print $3, $7}' | sort -k1,1 -k2,2g | awk '
  function out(){ if(n){m=(n%2)?v[(n+1)/2]:(v[n/2]+v[n/2+1])/2; printf "RESULT name=%s unit=mpps median=%.4f min=%.4f max=%.4f n=%d\n",k,m,v[1],v[n],n} }
  $1!=k{out();k=$1;n=0}{v[++n]=$2}END{out()}'
