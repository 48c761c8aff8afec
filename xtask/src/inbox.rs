//! `cargo xtask box`: a host in a box. Boots Debian's kernel under software emulation, with KVM, vhost-net and every module that the
//! tests of `tests/inbox` need; for tests of correctness, not of performance.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hostbox::{End, Initramfs, Kernel, Machine};

use crate::setup;
use crate::step::{Step, root, target_dir};
use crate::tally::Tally;
use crate::test::{Program, built};

/// Time limit of all scenarios together, on a busy machine too. They take four minutes on an idle one.
const LIMIT: Duration = Duration::from_secs(900);
/// A machine that has been silent for so long is lost: the longest test takes less than a minute, and one whose guest does not start
/// within two fails.
const SILENCE: Duration = Duration::from_secs(180);
/// Most machines that are started, one after the other: QEMU 7.2 is unreliable while its CPUs run guests ([`Machine::on_one_cpu`]), so a
/// machine that is lost is replaced, at most twice. A test that fails in one is not repeated.
const MACHINES: usize = 3;
/// Memory of the machine in MiB.
const MEMORY: u32 = 2048;
/// Suffix that is printed after the name of a program that starts.
const IN_THE_BOX: &str = " (in the box)";
/// Folder of the tests inside the box.
const TESTS: &str = "tests";

/// Programs of this host that tests use; one that is not installed here is missing inside too, and the tests report that.
const PROGRAMS: [&str; 24] = [
    "ip",
    "chrt",
    "bridge",
    "ethtool",
    "iperf3",
    "timeout",
    "bash",
    "flock",
    "unshare",
    "nsenter",
    "systemctl",
    "ovs-vsctl",
    "ovsdb-tool",
    "ovsdb-server",
    "ovs-appctl",
    "lxc-start",
    "lxc-stop",
    "lxc-info",
    "lxc-attach",
    // The first process of a container without a root of its own.
    "sleep",
    // FRR, and what its namespaces are held by.
    "/usr/lib/frr/zebra",
    "/usr/lib/frr/staticd",
    "vtysh",
    "setpriv",
];
/// What zebra sends routes to a data path by, and what PAM lets vtysh start by.
const FRR_MODULES: [&str; 2] = [
    "/usr/lib/x86_64-linux-gnu/frr/modules/dplane_fpm_nl.so",
    "/usr/lib/x86_64-linux-gnu/security/pam_permit.so",
];
/// Users with the one that FRR's daemons become, and groups with theirs.
const FRR_USERS: (&str, &str) = (
    "root:x:0:0:root:/root:/bin/sh\nfrr:x:105:112::/nonexistent:/usr/sbin/nologin\n",
    "root:x:0:\nfrrvty:x:111:frr\nfrr:x:112:\n",
);
/// Rules of PAM by which everybody may start vtysh.
const FRR_PAM: &str = "auth sufficient pam_permit.so\naccount sufficient pam_permit.so\n";
/// Debian's Open vSwitch package with DPDK diverts this name; the kernel datapath needs the plain version.
const VSWITCHD: (&str, &str) = ("/usr/lib/openvswitch-switch/ovs-vswitchd", "/usr/sbin/ovs-vswitchd");
/// Program that runs the package's unit.
const SYSTEMD: &str = "/lib/systemd/systemd";
const UNIT: &str = "packaging/ringroad@.service";
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// Folder that LXC mounts the root of a container on, and the list of system calls that it denies.
const LXC_ROOT: &str = "usr/lib/x86_64-linux-gnu/lxc/rootfs";
const LXC_CALLS: &str = "/usr/share/lxc/config/common.seccomp";

/// Modules that are loaded before the tests.
const MODULES: [&str; 19] = [
    // Other modules request this checksum by name, not as a symbol.
    "crc32c_generic",
    "kvm_amd",
    "vhost_net",
    "tun",
    "macvtap",
    "veth",
    "bridge",
    "8021q",
    "vrf",
    "vxlan",
    "dummy",
    "openvswitch",
    "pktgen",
    "virtio_pci",
    "virtio_net",
    "e1000",
    "sch_netem",
    "sch_fq_codel",
    "nf_tables",
];
/// Modules of a guest: the drivers of both NIC models.
const GUEST_MODULES: [&str; 3] = ["virtio_pci", "virtio_net", "e1000"];
/// Programs of a guest.
const GUEST_PROGRAMS: [&str; 4] = ["busybox", "ip", "ethtool", "iperf3"];

/// Options of the caller.
#[derive(Debug, Default)]
struct BoxOptions {
    /// Start a shell instead of the tests.
    shell: bool,
    /// A command that has already been built.
    binary: Option<PathBuf>,
    /// Further programs, such as the lab, which the machine has in /usr/bin.
    with: Vec<PathBuf>,
    /// Run tests whose names contain one of these; all if there are none.
    names: Vec<String>,
}

/// Runs the scenarios, or a shell.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let mut wish = BoxOptions::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--binary" => wish.binary = Some(arguments.next().context("--binary takes a file")?.into()),
            "--with" => wish.with.push(arguments.next().context("--with takes a program")?.into()),
            "--shell" => wish.shell = true,
            other if other.starts_with('-') => bail!("unknown option `{other}`"),
            name => wish.names.push(name.to_owned()),
        }
    }
    setup::packages()?;
    let mut tally = Tally::default();
    stage(&mut tally, &wish)?;
    tally.tell();
    Ok(tally.failed == 0)
}

/// Downloads the kernel for emulated machines while there is a network: end-to-end tests have only their own networks.
pub(crate) fn kernel() -> Result<()> {
    if Machine::missing().is_none()
        && let Err(why) = Kernel::obtain(&target_dir().join("box"))
    {
        println!("no kernel for emulated machines: {why:#}");
    }
    Ok(())
}

/// Runs all scenarios as a part of the tests.
pub(crate) fn all(tally: &mut Tally) -> Result<()> {
    stage(tally, &BoxOptions::default())
}

fn stage(tally: &mut Tally, wish: &BoxOptions) -> Result<()> {
    println!("\n== host in a box");
    let folder = target_dir().join("box");
    let kernel = match Machine::missing().map_or_else(|| Kernel::obtain(&folder), |why| bail!(why)) {
        Ok(kernel) => kernel,
        Err(why) => {
            tally.skipped.push(format!("host in a box: {why:#}"));
            return Ok(());
        }
    };
    let mut programs = build(wish)?;
    if wish.shell {
        let machine = machine(&kernel, &folder, &programs, wish)?;
        return machine.command().status().map(drop).context("cannot start QEMU");
    }
    let failed_before = tally.failed;
    for started in 1..=MACHINES {
        let (end, done) = scenarios(&programs, &machine(&kernel, &folder, &programs, wish)?)?;
        programs.due = settle(tally, &programs, done, end);
        if programs.due.is_empty() {
            tally.end_stage("host in a box", end == End::Status(0), failed_before);
            return Ok(());
        }
        tally.lost_machines += 1;
        println!("box: lost ({end:?}) with {} tests to go", programs.due.len());
        // Another machine cannot be run either where QEMU has refused this one.
        if started == MACHINES || matches!(end, End::Failed(_)) {
            break;
        }
    }
    programs.due.iter().for_each(|due| tally.fail(&format!("{due}{IN_THE_BOX}: the machine was lost"), []));
    Ok(())
}

/// Creates the machine, with all its files.
fn machine(kernel: &Kernel, folder: &Path, programs: &Programs, wish: &BoxOptions) -> Result<Machine> {
    let files = folder.join("host.cpio");
    contents(kernel, folder, programs, wish)?.write(&files)?;
    let mut machine = Machine::new(kernel, &files);
    // LXC would ask for its profile if AppArmor was on, and none is loaded.
    machine.memory(MEMORY).cpus(2).on_one_cpu().append("apparmor=0");
    Ok(machine)
}

/// Runs the tests in a machine; returns how the machine ended, and a tally of each test that it started.
fn scenarios(programs: &Programs, machine: &Machine) -> Result<(End, Vec<(String, Tally)>)> {
    let start = Instant::now();
    let mut done: Vec<(String, Tally)> = Vec::new();
    let end = machine.run(LIMIT, SILENCE, &mut |line| {
        done.extend(programs.started(line).map(|name| (name.to_owned(), Tally::default())));
        if done.last_mut().is_none_or(|(_, tally)| tally.line(line)) {
            println!("{line}");
        }
    })?;
    println!("box: {end:?} after {:.0} s", start.elapsed().as_secs_f64());
    Ok((end, done))
}

/// Counts the tests that were run, passed or failed; returns the others, which are due in another machine.
///
/// If the machine was lost, the last test that it began counts as not run. Any other test without a result has crashed, and failed.
fn settle(tally: &mut Tally, programs: &Programs, mut done: Vec<(String, Tally)>, end: End) -> Vec<String> {
    let is_lost = !matches!(end, End::Status(_));
    done.pop_if(|(_, last)| is_lost && last.is_open());
    let mut due = programs.due.clone();
    for (name, one) in done {
        due.retain(|due| *due != name);
        tally.take(one);
    }
    due
}

/// Programs built for the box.
#[derive(Debug)]
struct Programs {
    ringroad: PathBuf,
    /// Test programs. All of them are in every machine, because they start one another.
    tests: Vec<Program>,
    /// Tests to run, each in a process of its own: program and test, with a space between.
    due: Vec<String>,
}

impl Programs {
    /// Returns the test that a line announces as started.
    fn started(&self, line: &str) -> Option<&str> {
        let name = line.trim_start().strip_prefix("Running ")?.strip_suffix(IN_THE_BOX)?;
        self.due.iter().find(|due| *due == name).map(String::as_str)
    }
}

/// Builds the command and the tests.
fn build(wish: &BoxOptions) -> Result<Programs> {
    let ringroad = match &wish.binary {
        Some(binary) => binary.clone(),
        None => command()?,
    };
    // The tests of `sched` need control groups of version 2, which the box has.
    let step =
        Step::new("cargo").args(["test", "--package", "ringroad-inbox", "--package", "ringroad-sched"]);
    let mut tests =
        built(step.args(["--test", "*", "--no-run"]))?.context("the tests of the box do not build")?;
    // The fuzzing corpus is in the source tree and does not depend on the kernel.
    tests.retain(|program| program.target != "corpus");
    let mut due = Vec::new();
    for program in &tests {
        due.extend(program.tests()?.into_iter().map(|test| format!("{} {test}", program.target)));
    }
    due.retain(|due| wish.names.is_empty() || wish.names.iter().any(|name| due.contains(name)));
    Ok(Programs { ringroad, tests, due })
}

/// Builds the command, like the end-to-end tests do.
fn command() -> Result<PathBuf> {
    let step = Step::new("cargo").args([
        "build",
        "--profile",
        "quick",
        "--package",
        "ringroad",
        "--bin",
        "ringroad",
    ]);
    ensure!(step.run()?, "the command does not build");
    Ok(target_dir().join("quick/ringroad"))
}

/// Collects the files of the host.
fn contents(kernel: &Kernel, folder: &Path, programs: &Programs, wish: &BoxOptions) -> Result<Initramfs> {
    let mut files = Initramfs::new();
    files.program("busybox")?;
    for program in PROGRAMS {
        if let Err(why) = files.program(program) {
            println!("box: without {program}: {why}");
        }
    }
    if Path::new(VSWITCHD.0).is_file() {
        files.program_as(Path::new(VSWITCHD.0), VSWITCHD.1)?;
        files.file(Path::new(SCHEMA), SCHEMA)?;
    }
    if Path::new(SYSTEMD).is_file() {
        files.program(SYSTEMD)?.file(&root().join(UNIT), "/lib/systemd/system/ringroad@.service")?;
    }
    if Path::new(LXC_CALLS).is_file() {
        files.folder(LXC_ROOT).file(Path::new(LXC_CALLS), LXC_CALLS)?;
    }
    if FRR_MODULES.iter().all(|module| Path::new(module).is_file()) {
        frr(&mut files)?;
    }
    lean(&programs.ringroad, folder, "ringroad", &mut files, "/usr/bin/ringroad")?;
    for program in &wish.with {
        let name = program.file_name().and_then(|name| name.to_str()).context("--with takes a program")?;
        lean(program, folder, name, &mut files, &format!("/usr/bin/{name}"))?;
    }
    files.modules(kernel, &MODULES)?;
    for Program { target, path, .. } in &programs.tests {
        lean(path, folder, target, &mut files, &format!("/{TESTS}/{target}"))?;
    }
    guest(kernel)?.write(&folder.join("guest.cpio"))?;
    files.file(&folder.join("guest.cpio"), "/guest/initrd")?;
    files.file(kernel.image(), "/guest/vmlinux")?.file(kernel.packed(), "/guest/vmlinuz")?;
    files.init(&if wish.shell { "setsid cttyhack sh\n".to_owned() } else { script(programs) });
    Ok(files)
}

/// Adds what FRR's programs need beside their libraries.
fn frr(files: &mut Initramfs) -> Result<()> {
    for module in FRR_MODULES {
        files.file(Path::new(module), module)?;
    }
    let (users, groups) = FRR_USERS;
    files.folder("etc/frr").text("etc/passwd", users).text("etc/group", groups);
    // PAM reads the rules of all other services as well.
    files.text("etc/pam.d/frr", FRR_PAM).text("etc/pam.d/other", FRR_PAM);
    Ok(())
}

/// Adds a program stripped of debugging information, which is most of it; unstripped if stripping fails.
fn lean(program: &Path, folder: &Path, name: &str, files: &mut Initramfs, inside: &str) -> Result<()> {
    let stripped = folder.join(format!("{name}.lean"));
    let done = Command::new("strip").arg("-o").arg(&stripped).arg(program).stderr(Stdio::null()).status();
    let path = if done.is_ok_and(|status| status.success()) { &stripped } else { program };
    files.program_as(path, inside).map(drop)
}

/// Collects the files of a Linux guest that runs inside, on ringroad's VMM; its script is `tests/inbox/guest.sh`.
fn guest(kernel: &Kernel) -> Result<Initramfs> {
    let mut files = Initramfs::new();
    for program in GUEST_PROGRAMS {
        files.program(program)?;
    }
    let script = root().join("tests/inbox/guest.sh");
    let script = fs::read_to_string(&script).with_context(|| format!("cannot read {}", script.display()))?;
    files.modules(kernel, &GUEST_MODULES)?.init(&script);
    Ok(files)
}

/// Builds the script of the host, which runs the tests one after the other, with output like cargo's.
fn script(programs: &Programs) -> String {
    let mut script = "cd /root\nfailed=0\nexport RINGROAD=/usr/bin/ringroad RINGROAD_BOX=1\n".to_owned();
    for due in &programs.due {
        let run = format!("/{TESTS}/{due} --exact --show-output");
        script += &format!("echo '     Running {due}{IN_THE_BOX}'\n{run} 2>&1 || failed=1\n");
    }
    script + "exit $failed\n"
}

#[cfg(test)]
#[path = "inbox_tests.rs"]
mod tests;
