//! Private namespaces of a test: its links, mounts and processes are invisible to others, and disappear with the test.

use crate::step::output;

/// Script that sets up an empty `/run`, and the `/sys` of the new network namespace with the host's control groups and tracing in
/// it. The shell remains as the first process (PID 1) of the namespace, because it has to reap orphaned processes.
const SCRIPT: &str = "\
set -e
mount -t tmpfs tmpfs /run
for part in fs/cgroup fs/bpf kernel/tracing kernel/debug; do
    mkdir -p /run/sys/$part
    mount --rbind /sys/$part /run/sys/$part 2>/dev/null || rmdir /run/sys/$part
done
mount -t sysfs sysfs /sys
for part in fs/cgroup fs/bpf kernel/tracing kernel/debug; do
    [ ! -d /run/sys/$part ] || mount --rbind /run/sys/$part /sys/$part
done
umount -R -l /run && mount -t tmpfs tmpfs /run
ip link set lo up
\"$@\"
exit $?
";

/// Prefix of a command that gives it network, mount, process and IPC namespaces of its own.
pub(super) fn words() -> Vec<String> {
    let unshare = ["unshare", "--mount", "--net", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc"];
    let script = ["--propagation", "private", "sh", "-c", SCRIPT, "sh"];
    unshare.iter().chain(&script).map(|word| (*word).to_owned()).collect()
}

/// Returns true if this user may create such namespaces.
pub(super) fn possible() -> bool {
    output("id", &["-u"]) == "0" && crate::step::installed("unshare") && crate::step::installed("ip")
}
