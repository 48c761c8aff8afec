#!/bin/busybox sh
# First process of a machine: mounts file systems, loads modules, then runs the script of its owner.
export PATH=/usr/sbin:/usr/bin:/applets HOME=/root TERM=dumb
bb=/bin/busybox

# The file system that the kernel unpacks this into cannot be the root of a namespace (pivot_root refuses it). Mounted
# over itself, it can.
if [ "$1" != again ]; then
    $bb mkdir -p /root/self
    $bb mount -o bind / /root/self
    cd /root/self
    $bb mount -o move . /
    exec $bb chroot . /init again
fi

$bb mkdir -p /applets && $bb --install -s /applets
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mkdir -p /run/lock /run/netns
mount -t cgroup2 cgroup2 /sys/fs/cgroup 2>/dev/null
while read -r module; do
    insmod "/modules/$module.ko" || echo "module $module cannot be loaded"
done </modules/list
ip link set lo up 2>/dev/null
ln -s /proc/self/fd /dev/fd 2>/dev/null

sh /init.script
status=$?
# QEMU's isa-debug-exit exits with twice the octet plus one: adding 32 to the status avoids QEMU's own exit codes.
[ $status -gt 28 ] && status=28
printf "\\$(printf %03o $((status + 32)))" | dd of=/dev/port bs=1 seek=244 2>/dev/null
poweroff -f
