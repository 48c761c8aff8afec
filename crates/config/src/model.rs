//! Device model of a NIC, and the keys that depend on it: `model`, `mode`, `itr`, `combine`, `combine_above`.

use std::str::FromStr;

use crate::plan::{Deliver, Engine, Itr, Nic, NicModel, Router, TransmitMode, VhostThreads};
use crate::section::{Keywords, NumberOr, Section};
use crate::values::BadValue;

/// Most vCPUs of a router with an e1000: one for the frames, and one for the interrupts.
const MOST_VCPUS: u32 = 2;

/// Frame rate that no driver of an e1000 reaches, in frames/s.
const MOST_ABOVE: u32 = 10_000_000;

const MODELS: Keywords<NicModel> = Keywords {
    noun: ("NIC model", "models"),
    now: &[(NicModel::VirtioNet.name(), NicModel::VirtioNet), (NicModel::E1000.name(), NicModel::E1000)],
    later: &[],
};

const MODE_WORDS: [(&str, TransmitMode); TransmitMode::ALL.len()] = {
    let mut words = [("", TransmitMode::Base); TransmitMode::ALL.len()];
    let mut n = 0;
    while n < words.len() {
        words[n] = (TransmitMode::ALL[n].name(), TransmitMode::ALL[n]);
        n += 1;
    }
    words
};

const MODES: Keywords<TransmitMode> =
    Keywords { noun: ("way to transmit", "ways"), now: &MODE_WORDS, later: &[] };

/// Values of these keys for one NIC.
#[derive(Clone, Copy)]
pub(crate) struct Device {
    pub(crate) model: NicModel,
    pub(crate) mode: TransmitMode,
    pub(crate) itr: Itr,
    pub(crate) combine: u32,
    pub(crate) combine_above: u32,
}

/// Parses these keys of a NIC.
pub(crate) fn read(section: &Section<'_>) -> Device {
    let device = Device {
        model: section.word("model", &MODELS),
        mode: section.word("mode", &MODES),
        itr: itr(section),
        combine: section.number("combine", 1..=1024, 0),
        combine_above: section.number("combine_above", 1..=MOST_ABOVE, 0),
    };
    let only = |key, who: &str, remedy: &str| {
        let what = format!("only {who} has it; remove it, or write {remedy}");
        section.fault(section.line_of(key), key, what);
    };
    if device.model != NicModel::E1000 && section.has("mode") {
        only("mode", "an e1000", "model = \"e1000\"");
    }
    for key in ["combine", "combine_above"] {
        if device.mode != TransmitMode::SendCombining && section.has(key) {
            only(key, "send combining", "mode = \"send-combining\"");
        }
    }
    device
}

/// Parses a number of 250 ns units, or `"adaptive"`.
fn itr(section: &Section<'_>) -> Itr {
    match section.number_or("itr", 0..=u32::from(u16::MAX), "adaptive") {
        Some(NumberOr::Number(units)) => Itr::Every(u16::try_from(units).unwrap_or(u16::MAX)),
        Some(NumberOr::Word) => Itr::Adaptive,
        None => Itr::default(),
    }
}

impl FromStr for Itr {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        match (text, text.parse()) {
            ("adaptive", _) => Ok(Self::Adaptive),
            (_, Ok(units)) => Ok(Self::Every(units)),
            _ => Err(BadValue(format!("{text:?} is out of range; write 0 to 65535, or \"adaptive\""))),
        }
    }
}

/// Finds a NIC model by name.
///
/// # Errors
/// There is none; the message lists the models.
pub fn nic_model(name: &str) -> Result<NicModel, BadValue> {
    MODELS.find(name).map_err(BadValue)
}

/// Finds a transmit mode by name.
///
/// # Errors
/// There is none; the message lists the modes.
pub fn transmit_mode(name: &str) -> Result<TransmitMode, BadValue> {
    MODES.find(name).map_err(BadValue)
}

/// Checks what an e1000 requires of its router and of the router's other NICs; `sections` are those of
/// `nics`.
pub(crate) fn verify(section: &Section<'_>, sections: &[Section<'_>], router: &Router, nics: &mut [Nic]) {
    if matches!(router.vhost, VhostThreads::Kernel | VhostThreads::Vmm) {
        not_ours(section, sections, router, nics);
    }
    let is_e1000 = |nic: &Nic| nic.model == NicModel::E1000;
    if !nics.iter().any(is_e1000) {
        return;
    }
    if router.vcpus > MOST_VCPUS && router.linux.is_none() {
        let what = format!(
            "{} vCPUs are too many for a router with an e1000, whose second vCPU takes its interrupts; write 1 or \
             {MOST_VCPUS}",
            router.vcpus
        );
        section.fault(section.line_of("vcpus"), "vcpus", what);
    }
    for (section, nic) in sections.iter().zip(nics) {
        one_queue_pair(section, nic);
        if is_e1000(nic) {
            e1000(section, router, nic);
            handed(section, nic);
        }
    }
}

/// Refuses an e1000 at a vhost-user peer, which only knows virtqueues.
fn handed(section: &Section<'_>, nic: &Nic) {
    if nic.attach.traits().is_handed {
        let what = "an e1000's rings cannot be handed to a vhost-user peer; write model = \"virtio-net\"";
        section.fault(section.line_of("attach"), "attach", what);
    }
}

/// Checks a router whose NICs are not served by our threads.
fn not_ours(section: &Section<'_>, sections: &[Section<'_>], router: &Router, nics: &[Nic]) {
    if router.engine == Some(Engine::Process) {
        let what = "a process has no virtual machine whose NICs the kernel or the vCPU's thread could serve; write \
                    engine = \"kvm\", or vhost = \"shared\"";
        section.fault(section.line_of("vhost"), "vhost", what);
    }
    if router.vhost == VhostThreads::Vmm {
        return;
    }
    for (section, nic) in sections.iter().zip(nics) {
        if nic.model == NicModel::E1000 {
            let what = "vhost-net serves virtio-net only; write model = \"virtio-net\", or another vhost";
            section.fault(section.line_of("model"), "model", what);
        }
        if !nic.attach.traits().is_link {
            let what = "vhost-net serves TAPs and macvtaps; write \"tap:NAME\", \"bridge:NAME\", \"ovs:NAME\" or \
                        \"macvtap:NAME\", or another vhost";
            section.fault(section.line_of("attach"), "attach", what);
        }
        if nic.itr != Itr::default() {
            let what = "vhost-net interrupts at once; remove it, or write another vhost";
            section.fault(section.line_of("itr"), "itr", what);
        }
    }
}

/// Adapts to a stock kernel's driver, which drives the NIC as if it were the chip.
fn stock_driver(section: &Section<'_>, nic: &mut Nic) {
    if !matches!(nic.mode, TransmitMode::Csb | TransmitMode::SendCombining) {
        return;
    }
    if section.has("mode") {
        let what = format!(
            "{:?} is for our own driver; for a Linux guest write \"async\", \"base\" or \"coalesced\"",
            nic.mode.name()
        );
        section.fault(section.line_of("mode"), "mode", what);
    }
    nic.mode = TransmitMode::Async;
}

/// Limits NICs to one queue pair: the vCPU that takes an e1000's interrupts serves no queues.
fn one_queue_pair(section: &Section<'_>, nic: &mut Nic) {
    if section.has("queues") && nic.queues != 1 {
        let what = if nic.model == NicModel::E1000 {
            "an e1000 has one queue pair; write queues = 1"
        } else {
            "a router with an e1000 has one queue pair in each NIC; write queues = 1"
        };
        section.fault(section.line_of("queues"), "queues", what);
    }
    nic.queues = 1;
}

fn e1000(section: &Section<'_>, router: &Router, nic: &mut Nic) {
    if router.linux.is_some() {
        stock_driver(section, nic);
    }
    if nic.deliver == Deliver::Direct {
        let what = "an e1000 gives its buffers back in order, so that one thread fills them; write deliver = \"queued\"";
        section.fault(section.line_of("deliver"), "deliver", what);
    }
    if nic.combine > nic.ring {
        let what = format!("{} is more than the ring holds; write 1 to {}", nic.combine, nic.ring);
        section.fault(section.line_of("combine"), "combine", what);
    }
    if nic.mode == TransmitMode::Coalesced && router.engine == Some(Engine::Process) {
        let what =
            "KVM collects the writes, and a process has none; write mode = \"async\", or engine = \"kvm\"";
        section.fault(section.line_of("mode"), "mode", what);
    }
}
