//! Objective: each file in `examples/` does what its comment says, by the commands given there: the run starts with the file
//! unchanged, its routers forward, it ends well and leaves nothing behind. Each file is in the index, and there is an example of
//! each kind of attachment, engine and policy, and of each key about CPUs, that a file can have.

mod session;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use support::{Namespace, Need, missing};

use session::Session;

/// Folder of all examples.
fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples")
}

/// Text of an example.
fn text(file: &str) -> String {
    fs::read_to_string(folder().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Requirement of an example.
#[derive(Clone, Copy, Debug)]
enum Want {
    Of(Need),
    /// At least two CPUs in the affinity mask.
    TwoCpus,
    /// Control groups with this controller.
    Groups(&'static str),
    /// Guest ring 0 fast enough to boot a kernel.
    GuestKernels,
    File(&'static str),
    /// A kernel that can make interfaces for VLANs.
    Vlans,
}

impl Want {
    /// Returns the reason why it is not met; none if it is.
    fn lacks(self) -> Option<String> {
        match self {
            Self::Of(need) => missing(&[need]),
            Self::TwoCpus => {
                let cpus = rustix::thread::sched_getaffinity(None).map_or(0, |cpus| cpus.count());
                (cpus < 2 || !is_allowed(0) || !is_allowed(1))
                    .then(|| "CPUs 0 and 1 may not both be used".to_owned())
            }
            Self::Groups(controller) => (!has_groups(controller))
                .then(|| format!("no control groups with the controller {controller}")),
            Self::GuestKernels => match vmm::probe::ring0_is_emulated() {
                Ok(false) => None,
                Ok(true) => Some("this host emulates guest ring 0 instruction by instruction".to_owned()),
                Err(error) => Some(format!("{error:#}")),
            },
            Self::Vlans => (!has_vlans()).then(|| "this kernel has no 802.1Q".to_owned()),
            Self::File(path) => (!Path::new(path).is_file()).then(|| format!("there is no {path}")),
        }
    }
}

fn is_allowed(cpu: usize) -> bool {
    rustix::thread::sched_getaffinity(None).is_ok_and(|cpus| cpus.is_set(cpu))
}

/// Returns true if an interface for a VLAN can be added, which is tried in a namespace of its own.
fn has_vlans() -> bool {
    Namespace::add("rr-vlans").is_ok_and(|home| {
        home.ip(&["link", "add", "link", "lo", "name", "v1", "type", "vlan", "id", "1"]).is_ok()
    })
}

fn has_groups(controller: &str) -> bool {
    let v2 = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers");
    Path::new("/sys/fs/cgroup").join(controller).is_dir()
        || v2.is_ok_and(|known| known.split_whitespace().any(|known| known == controller))
}

/// Requirements of all examples: rights, TAPs, and the programs that their commands and this test call.
const ALWAYS: [Want; 6] = [
    Want::Of(Need::Root),
    Want::Of(Need::Tun),
    Want::Of(Need::Program("ip")),
    Want::Of(Need::Program("bash")),
    Want::Of(Need::Program("busybox")),
    Want::Of(Need::Program("nsenter")),
];

const KVM: Want = Want::Of(Need::Kvm);
const TESTPMD: Want = Want::Of(Need::Program("dpdk-testpmd"));
const CPU: Want = Want::Groups("cpu");
const FRR: Want = Want::Of(Need::Program("vtysh"));
const GOBGPD: Want = Want::Of(Need::Program("gobgpd"));
/// 802.1Q in the kernel.
const VLANS: Want = Want::Vlans;
const CPUSET: Want = Want::Groups("cpuset");

/// Plays examples one after the other on one host, or prints what the host lacks.
fn play(files: &[&str], wants: &[Want]) {
    if let Some(why) = ALWAYS.iter().chain(wants).find_map(|want| want.lacks()) {
        println!("SKIPPED: {why}");
        return;
    }
    let mut session = Session::open();
    files.iter().for_each(|file| session.play(file));
    session.close();
}

/// Defines a test for each example from the files that it plays and their requirements; the last file is the one that is tested.
macro_rules! tested {
    ($($test:ident: [$($before:literal,)* => $file:literal], [$($want:expr),*];)*) => {
        /// Files that are tested here.
        pub(crate) const FILES: &[&str] = &[$($file),*];
        $(
            #[test]
            fn $test() {
                play(&[$($before,)* $file], &[$($want),*]);
            }
        )*
    };
}

mod each {
    use super::*;

    tested! {
        one_router: [=> "one-router.toml"], [KVM];
        two_routers: [=> "two-routers.toml"], [];
        process: [=> "process.toml"], [];
        parallel: [=> "parallel.toml"], [];
        container: [=> "container.toml"], [];
        udp: [=> "udp.toml"], [];
        replay: ["pcap.toml", => "replay.toml"], [Want::Of(Need::Program("tcpdump"))];
    }
}

/// Placement and policies of threads depend on what else runs.
mod alone {
    use super::*;

    tested! {
        pinned: [=> "pinned.toml"], [Want::TwoCpus];
    }
}

mod all {
    use super::*;

    tested! {
        e1000: [=> "e1000.toml"], [];
        ipv6: [=> "ipv6.toml"], [];
        pcap: [=> "pcap.toml"], [Want::Of(Need::Program("tcpdump"))];
        gateways: [=> "gateways.toml"], [];
        vrf: [=> "vrf.toml"], [];
        jumbo: [=> "jumbo.toml"], [];
        vlan: [=> "vlan.toml"], [VLANS];
        full_table: [=> "full-table.toml"], [Want::Of(Need::Program("awk"))];
        ospf_triangle: [=> "ospf-triangle.toml"], [FRR];
        bgp: [=> "bgp.toml"], [FRR];
        bfd: [=> "bfd.toml"], [FRR];
        vrrp_pair: [=> "vrrp-pair.toml"], [FRR];
        isolated: [=> "isolated.toml"], [KVM];
        multistage: [=> "multistage.toml"], [];
        multistage_vm: [=> "multistage-vm.toml"], [];
        multistage_bridge: [=> "multistage-bridge.toml"], [];
        linux: [=> "linux.toml"], [KVM, Want::GuestKernels, Want::File("/vmlinuz"), Want::File("/initrd.img")];
        macvlan: [=> "macvlan.toml"], [];
        link: [=> "link.toml"], [];
        vf: [=> "vf.toml"], [Want::File("/sys/class/net/rr-port/device/sriov_totalvfs")];
        bridge: [=> "bridge.toml"], [];
        ovs: [=> "ovs.toml"], [Want::Of(Need::Program("ovs-vswitchd")), Want::Of(Need::Program("ovsdb-server"))];
        macvtap: [=> "macvtap.toml"], [];
        xdp: [=> "xdp.toml"], [];
        vhost_user_backend: [=> "vhost-user-backend.toml"], [KVM, TESTPMD];
        vhost_user_frontend: [=> "vhost-user-frontend.toml"], [KVM, TESTPMD];
        null: [=> "null.toml"], [];
        limit: [=> "limit.toml"], [];
        bgp_full_table: [=> "bgp-full-table.toml"], [FRR, GOBGPD];
    }

    /// Containers are in control groups of the host, too.
    pub(super) mod alone {
        use super::*;

        tested! {
            lxc: [=> "lxc.toml"], [Want::Of(Need::Program("lxc-start"))];
            compare: [=> "compare.toml"], [KVM, Want::Of(Need::Program("lxc-start"))];
            affinity: [=> "affinity.toml"], [Want::TwoCpus];
            fifo: [=> "fifo.toml"], [];
            rr: [=> "rr.toml"], [];
            deadline: [=> "deadline.toml"], [];
            exclusive: [=> "exclusive.toml"], [Want::TwoCpus, CPUSET];
            shares: [=> "shares.toml"], [CPU];
            guaranteed: [=> "guaranteed.toml"], [Want::TwoCpus, CPU];
        }
    }
}

/// Names of all examples.
fn files() -> BTreeSet<String> {
    let entries = fs::read_dir(folder()).expect("examples").map(|entry| entry.expect("a file").file_name());
    entries.filter_map(|name| name.into_string().ok()).filter(|name| name.ends_with(".toml")).collect()
}

#[test]
fn each_has_a_test_and_a_line_in_the_index() {
    let tested =
        [each::FILES, alone::FILES, all::FILES, all::alone::FILES].concat().into_iter().map(str::to_owned);
    assert_eq!(tested.collect::<BTreeSet<_>>(), files());
    let index = text("README.md");
    for file in files() {
        let row = format!("| [{file}]({file}) | ");
        assert_eq!(index.lines().filter(|line| line.starts_with(&row)).count(), 1, "{row}");
    }
}

#[test]
fn there_is_one_of_each_kind() {
    let (mut seen, mut keys) = (BTreeSet::new(), BTreeSet::new());
    for file in files() {
        let text = text(&file);
        let plan = config::parse(&text, &file).unwrap_or_else(|errors| panic!("{errors}"));
        seen.extend(plan.nics().map(|(_, nic)| nic.attach.kind()));
        seen.extend(plan.routers.iter().filter_map(|router| router.engine).map(config::Engine::name));
        let policies =
            plan.routers.iter().flat_map(|router| [router.sched.all, router.sched.vcpu, router.sched.vhost]);
        seen.extend(policies.flatten().map(config::Policy::name));
        keys.extend(text.lines().filter_map(|line| Some(line.split_once('=')?.0.trim().to_owned())));
    }
    let kinds = [config::kinds::attachments(), config::kinds::engines(), config::kinds::policies()].concat();
    let missing: Vec<&str> = kinds.into_iter().filter(|kind| !seen.contains(kind)).collect();
    assert_eq!(missing, [""; 0]);
    let missing: Vec<&str> =
        config::kinds::cpu_keys().iter().copied().filter(|key| !keys.contains(*key)).collect();
    assert_eq!(missing, [""; 0]);
}
