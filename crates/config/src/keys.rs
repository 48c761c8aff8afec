//! Keys of a router, a NIC and a group: accepted values, default, effect, cost of a change, and value in a plan.
//!
//! This single table defines what a file may say, what can be set while a router runs, the help of `set`, the
//! output of `show`, the reasons for replacing a router, and `docs/file.md`.

mod value;

use attach::Takes;

use crate::plan::{Allowed, ForwardingSettings, Linux, Nic, NicModel, Role, Router, TransmitMode};
use crate::setting::Key;

pub use value::Value;

/// Effect of changing a key on a running router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It can be set without packet loss.
    Free(Key),
    /// It can be set, and these packets are lost.
    Loses(Key, &'static str),
    /// The router is replaced by a new one, because the key is used when it is built or when its firmware
    /// boots.
    Replaces,
    /// It changes by `apply`, without packet loss.
    Applies,
    /// It changes by `apply`, and these packets are lost.
    AppliesAndLoses(&'static str),
    /// It stays as it is while the run lasts.
    Refused,
}

/// Key of a table `T`.
#[derive(Clone, Copy, Debug)]
pub struct Entry<T: 'static> {
    /// Name in files; `KEY` and `CLASS` are placeholders.
    pub name: &'static str,
    /// Accepted values.
    pub takes: &'static str,
    /// Default.
    pub default: &'static str,
    /// Effect.
    pub does: &'static str,
    /// Effect of a change.
    pub change: Change,
    /// Reads its value from a plan; `None`: not worth showing.
    value: fn(&T) -> Option<Value>,
}

impl<T> Entry<T> {
    pub(crate) const fn new(
        name: &'static str,
        (takes, default): (&'static str, &'static str),
        does: &'static str,
        change: Change,
        value: fn(&T) -> Option<Value>,
    ) -> Self {
        Self { name, takes, default, does, change, value }
    }

    /// Value for a router, NIC or group of a plan; `None`: not worth showing.
    pub fn value(&self, of: &T) -> Option<Value> {
        (self.value)(of)
    }
}

/// Keys that do not apply to a router or its NICs, because it has no machine.
pub fn inapplicable(router: &Router) -> impl Iterator<Item = &'static str> {
    crate::kernel::inapplicable(router)
}

/// Top-level names of keys: `pin` for `pin.vcpu`.
pub(crate) fn names<T>(entries: &[Entry<T>]) -> Vec<&'static str> {
    let mut names: Vec<&str> = entries.iter().filter_map(|entry| entry.name.split('.').next()).collect();
    names.dedup();
    names
}

pub(crate) fn text(text: impl ToString) -> Option<Value> {
    Some(Value::Text(text.to_string()))
}

#[expect(clippy::unnecessary_wraps, reason = "as `text`")]
fn number(number: u32) -> Option<Value> {
    Some(Value::Number(number))
}

fn cpus<C: ToString>(cpus: &Option<C>) -> Option<Value> {
    text(cpus.as_ref().map_or("any".to_owned(), ToString::to_string))
}

fn allowed(allowed: &Allowed) -> Option<Value> {
    (*allowed != Allowed::Auto).then(|| Value::Text(allowed.to_string()))
}

fn linux(router: &Router, value: fn(&Linux) -> Option<String>) -> Option<Value> {
    router.linux.as_ref().and_then(value).map(Value::Text)
}

pub(crate) fn kernel(router: &Router, value: fn(&ForwardingSettings) -> String) -> Option<Value> {
    router.kernel.as_ref().map(value).map(Value::Text)
}

fn path(path: &std::path::Path) -> String {
    path.display().to_string()
}

fn debug(word: impl std::fmt::Debug) -> Option<Value> {
    text(format!("{word:?}").to_lowercase())
}

/// For keys that are shown as part of another key's value.
const fn said_there<T>(_: &T) -> Option<Value> {
    None
}

/// Keys of `[[router]]`, except for its tables.
pub const ROUTER: &[Entry<Router>] = &[
    Entry::new("name", ("a word", ""), "what it is called, once on a host", Change::Replaces, |_| None),
    Entry::new(
        "engine",
        ("kvm, process, linux, kernel, lxc", "kvm where the host has it, else process"),
        "what runs it",
        Change::Replaces,
        |router| text(router.engine?.name()),
    ),
    Entry::new(
        "role",
        ("router, echo, hostile", "router"),
        "what its firmware does: forwards, sends everything back, breaks rules",
        Change::Replaces,
        |router| {
            text(match router.role {
                Role::Router => "router",
                Role::Echo => "echo",
                Role::Hostile(_) => "hostile",
                Role::Balancer => "balancer",
            })
        },
    ),
    Entry::new(
        "misdeed",
        ("spin, descriptors, ...", ""),
        "which rule a hostile one breaks",
        Change::Replaces,
        |router| match router.role {
            Role::Hostile(misdeed) => text(misdeed.name()),
            Role::Router | Role::Echo | Role::Balancer => None,
        },
    ),
    Entry::new(
        "restart",
        ("always, never", "always"),
        "start it again when it stops by itself, or do not",
        Change::Free(Key::Restart),
        |router| text(router.restart.name()),
    ),
    Entry::new(
        "state",
        ("running, stopped", "running"),
        "start or stop it",
        Change::Loses(Key::State, "what arrives while it is stopped"),
        |router| router.is_stopped().then(|| Value::Text("stopped".to_owned())),
    ),
    Entry::new("vcpus", ("1 to 16", "1"), "its virtual CPUs", Change::Replaces, |router| {
        number(router.vcpus)
    }),
    Entry::new(
        "memory",
        ("16M to 1G, in steps of 2M; a Linux guest 64M to 3G", "what it needs, at least 32M; 256M"),
        "the memory of its guest",
        Change::Replaces,
        |router| text(format!("{}M", router.memory >> 20)),
    ),
    Entry::new(
        "vhost",
        ("shared, per-nic, split, per-queue, kernel, vmm", "shared"),
        "how its I/O threads are cut",
        Change::Replaces,
        |router| text(router.vhost.name()),
    ),
    Entry::new(
        "spin",
        ("50us, always", "50us"),
        "poll for so long before sleeping: its vhost threads at once, its firmware when it is started anew",
        Change::Free(Key::Spin),
        |router| text(router.spin),
    ),
    Entry::new(
        "isolate",
        ("process", "none"),
        "give its virtual machine a process of its own",
        Change::Replaces,
        |router| router.is_isolated().then(|| Value::Text("process".to_owned())),
    ),
    Entry::new(
        "kernel",
        ("a file", ""),
        "what a Linux guest boots, a bzImage or an ELF vmlinux",
        Change::Replaces,
        |router| linux(router, |linux| Some(path(&linux.kernel))),
    ),
    Entry::new("initrd", ("a file", "none"), "its initramfs", Change::Replaces, |router| {
        linux(router, |linux| linux.initrd.as_deref().map(path))
    }),
    Entry::new("append", ("words", "none"), "its command line", Change::Replaces, |router| {
        linux(router, |linux| (!linux.append.is_empty()).then(|| linux.append.clone()))
    }),
    Entry::new(
        "console",
        ("a file", "none"),
        "where its serial console is written to",
        Change::Replaces,
        |router| linux(router, |linux| linux.console.as_deref().map(path)),
    ),
    Entry::new(
        "forwarding",
        ("true, false", "true"),
        "have the host's kernel forward between the NICs; if false it only answers",
        Change::Loses(Key::Forwarding, "traffic to be forwarded while it is false"),
        |router| kernel(router, |kernel| kernel.forwarding.to_string()),
    ),
    Entry::new(
        "rp_filter",
        ("off, strict, loose", "off"),
        "reverse path filter of IPv4: drop packets whose source is not reachable by the same NIC (strict) or by any NIC (loose)",
        Change::Free(Key::RpFilter),
        |router| kernel(router, |kernel| kernel.rp_filter.name().to_owned()),
    ),
    Entry::new(
        "proxy_arp",
        ("true, false", "false"),
        "proxy ARP: answer ARP requests for addresses that are reachable by another NIC",
        Change::Free(Key::ProxyArp),
        |router| kernel(router, |kernel| kernel.proxy_arp.to_string()),
    ),
    Entry::new(
        "threaded",
        ("true, false", "true with pin, affinity, sched or guarantee, else false"),
        "threaded NAPI: kernel threads do the receive work, not softirqs",
        Change::Free(Key::Threaded),
        |router| router.kernel.as_ref().and_then(|_| text(router.is_threaded())),
    ),
    crate::kernel::DROP_REASONS,
    Entry::new(
        "rootfs",
        ("a folder", "the host's programs"),
        "the root of an LXC container",
        Change::Replaces,
        |router| text(path(router.container.as_ref()?.rootfs.as_deref()?)),
    ),
    Entry::new(
        "init",
        ("a program, words", "/sbin/init"),
        "init program in that root",
        Change::Replaces,
        |router| {
            let init = &router.container.as_ref()?.init;
            (!init.is_empty()).then(|| Value::Text(init.join(" ")))
        },
    ),
    Entry::new(
        "pin.vcpu",
        ("1, 0-1,3, any", "any"),
        "deal the vCPU threads out to these CPUs",
        Change::Free(Key::PinVcpu),
        |router| cpus(&router.pin.vcpu),
    ),
    Entry::new(
        "pin.vhost",
        ("1, 0-1,3, any", "any"),
        "deal the vhost threads out to these CPUs",
        Change::Free(Key::PinVhost),
        |router| cpus(&router.pin.vhost),
    ),
    Entry::new(
        "affinity.vcpu",
        ("0-1,3, free, auto", "auto"),
        "let the kernel place the vCPU threads in these CPUs",
        Change::Free(Key::AffinityVcpu),
        |router| allowed(&router.affinity.vcpu),
    ),
    Entry::new(
        "affinity.vhost",
        ("0-1,3, free, auto", "auto"),
        "let the kernel place the vhost threads in these CPUs",
        Change::Free(Key::AffinityVhost),
        |router| allowed(&router.affinity.vhost),
    ),
    Entry::new(
        "sched",
        ("a table, as in a file", "{ policy = \"other\" }"),
        "schedule its threads by this policy",
        Change::Free(Key::Sched),
        |router| (!router.sched.is_empty()).then(|| Value::Text(router.sched.to_string())),
    ),
    Entry::new(
        "sched.KEY",
        ("as in a file", ""),
        "change policy, priority, runtime, deadline, period, reclaim, weight or quota",
        Change::Free(Key::Sched),
        said_there,
    ),
    Entry::new(
        "sched.CLASS",
        ("a table, as in a file", "as sched"),
        "the policy for the threads of one class: vcpu or vhost",
        Change::Free(Key::Sched),
        said_there,
    ),
    Entry::new(
        "sched.CLASS.KEY",
        ("as in a file", ""),
        "change one key for one class",
        Change::Free(Key::Sched),
        said_there,
    ),
    Entry::new(
        "guarantee",
        ("400kpps, none", "none"),
        "promise a rate; the size of its frames stays",
        Change::Free(Key::Guarantee),
        |router| text(router.guarantee?),
    ),
    Entry::new(
        "guarantee.rate",
        ("400kpps", ""),
        "promise a rate; the size of its frames stays",
        Change::Free(Key::GuaranteeRate),
        said_there,
    ),
    Entry::new(
        "guarantee.frame",
        ("60 to 9230", "60"),
        "promise it for frames of so many octets",
        Change::Free(Key::GuaranteeFrame),
        said_there,
    ),
    Entry::new(
        "limit",
        ("200kpps, none", "none"),
        "let in at most so many packets a second",
        Change::Free(Key::Limit),
        |router| text(router.limit?),
    ),
    crate::forwarding::NEIGHBOURS,
    crate::forwarding::LONG_ROUTES,
    crate::forwarding::REDIRECTS,
    crate::control::CONTROL,
    crate::control::FRR,
];

/// Keys of `[[router.nic]]`: those of every NIC, and those that only some kinds of attachments have, which
/// declare them themselves.
pub fn nic() -> Vec<Entry<Nic>> {
    let mut entries = NIC.to_vec();
    entries.extend(crate::six::keys());
    entries.push(crate::forwarding::REVERSE_PATH);
    entries.push(crate::forwarding::vrf::KEY);
    for (key, _) in attach::keys() {
        let value: fn(&Nic) -> Option<Value> = match key.takes {
            Takes::Elsewhere => shared_memory,
            Takes::Word(_) | Takes::Text(_) | Takes::Number(_) | Takes::Flag => said_there,
        };
        if entries.iter().all(|entry| entry.name != key.name) {
            let change = key.in_place.map_or(Change::Replaces, Change::AppliesAndLoses);
            entries.push(Entry::new(key.name, key.shown, key.does, change, value));
        }
    }
    entries
}

/// Keys of every NIC.
const NIC: &[Entry<Nic>] = &[
    Entry::new("name", ("a word", ""), "what it is called, once in its router", Change::Replaces, |_| None),
    Entry::new(
        "attach",
        ("switch:NAME, tap:INTERFACE, ...", ""),
        "what it is plugged into",
        Change::Replaces,
        |nic| text([nic.attach.to_string(), nic.attach.detail()].concat()),
    ),
    Entry::new(
        "link",
        ("up, down", "up"),
        "plug the cable of a NIC in, or pull it out",
        Change::Loses(Key::Link, "what arrives while it is down"),
        |nic| nic.is_pulled().then(|| Value::Text("down".to_owned())),
    ),
    Entry::new(
        "address",
        ("192.0.2.1/24, 2001:db8::1/64, or a list", "none"),
        "its IPv4 and IPv6 addresses",
        Change::Replaces,
        |nic| {
            let six = nic.six.addresses.iter().map(ToString::to_string);
            let addresses: Vec<String> = nic.addresses.iter().map(ToString::to_string).chain(six).collect();
            (!addresses.is_empty()).then(|| Value::Text(addresses.join(" ")))
        },
    ),
    Entry::new(
        "mac",
        ("02:00:00:00:00:01", "from both names"),
        "its Ethernet address",
        Change::Replaces,
        |nic| text(nic.mac),
    ),
    Entry::new("mtu", ("68 to 9216", "1500"), "octets of its largest packet", Change::Replaces, |nic| {
        number(nic.mtu)
    }),
    Entry::new(
        "model",
        ("virtio-net, e1000", "virtio-net"),
        "which device the router sees",
        Change::Replaces,
        |nic| text(nic.model.name()),
    ),
    Entry::new(
        "mode",
        ("csb, async, base, coalesced, send-combining", "csb"),
        "how frames leave by an e1000",
        Change::Replaces,
        |nic| (nic.model == NicModel::E1000).then(|| Value::Text(nic.mode.name().to_owned())),
    ),
    Entry::new(
        "itr",
        ("0 to 65535, adaptive", "0"),
        "least time between two of its interrupts, in units of 250 ns",
        Change::Replaces,
        |nic| match nic.itr {
            crate::Itr::Every(units) => number(units.into()),
            crate::Itr::Adaptive => text(nic.itr),
        },
    ),
    Entry::new(
        "combine",
        ("1 to 1024", "the ring's length"),
        "frames that wait for an interrupt at most, where sends are combined",
        Change::Replaces,
        |nic| combined(nic, nic.combine),
    ),
    Entry::new(
        "combine_above",
        ("1 to 10000000", "0"),
        "frames a second above which sends are combined",
        Change::Replaces,
        |nic| combined(nic, nic.combine_above),
    ),
    Entry::new(
        "queues",
        ("1 to vcpus", "vcpus"),
        "queue pairs that frames towards the router are spread over",
        Change::Replaces,
        |nic| number(nic.queues),
    ),
    Entry::new(
        "hash",
        ("flow, symmetric", "flow"),
        "how they are spread; symmetric: both directions of a flow to one pair",
        Change::Replaces,
        |nic| debug(nic.hash),
    ),
    Entry::new(
        "queue_len",
        ("1 to 65536, auto", "1000"),
        "frames that wait at most before the router",
        Change::Replaces,
        |nic| match nic.queue_len {
            crate::QueueLen::Frames(frames) => number(frames),
            crate::QueueLen::Auto => text(nic.queue_len),
        },
    ),
    Entry::new(
        "deliver",
        ("queued, direct", "queued"),
        "whose thread copies a frame from a switch: the receiver's, or the sender's",
        Change::Replaces,
        |nic| debug(nic.deliver),
    ),
    Entry::new("ring", ("256, 512, 1024", "1024"), "entries of its rings", Change::Replaces, |nic| {
        number(nic.ring)
    }),
    Entry::new(
        "offload",
        ("true, false", "true"),
        "leave checksums and the cutting of large frames to whoever can do it",
        Change::Replaces,
        |nic| (!nic.offload).then(|| Value::Text("false".to_owned())),
    ),
];

/// Memory that the virtual machine at its other end may share, in octets, if there can be one.
fn shared_memory(nic: &Nic) -> Option<Value> {
    nic.attach.traits().shares_memory.then(|| Value::Text(format!("{}M", nic.memory_max >> 20)))
}

fn combined(nic: &Nic, value: u32) -> Option<Value> {
    (nic.mode == TransmitMode::SendCombining && value > 0).then_some(Value::Number(value))
}
