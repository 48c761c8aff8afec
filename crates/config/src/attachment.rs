//! `attach` of a NIC, and the keys that only some kinds of attachments have.

use std::ops::RangeInclusive;

use attach::{Attach, Key, NicRequirements, Takes};
use port::steer::Hash;

use crate::keys;
use crate::plan::{Deliver, FlowHash, Nic, Plan, QueueLen, Router, Spin, VhostThreads};
use crate::read::valued;
use crate::section::{Section, WithLine};
use crate::values;

/// Limits, in octets, of the memory that another program's virtual machine may be allowed to share, and the
/// default: more than most machines have, yet so little that two thousand of them fit into our address space
/// of 128 TiB.
const MEMORY_MAX: RangeInclusive<u64> = 2 << 20..=4 << 40;
const DEFAULT_MEMORY_MAX: u64 = 64 << 30;

/// Parses the attachment of a NIC.
pub(crate) fn read(section: &Section<'_>, plan: &Plan) -> Option<Attach> {
    let WithLine { value, line } = section.required_text("attach", "\"tap:tap0\"")?;
    let attach = Attach::read(value).and_then(|attach| has_switch(&attach, plan).map(|()| attach));
    let mut attach = attach.map_err(|what| section.fault(line, "attach", what)).ok()?;
    foreign_keys(section, &attach);
    for key in attach.keys().iter().filter(|key| key.with.is_none_or(|(with, _)| section.has(with))) {
        if let Some(value) = value_of(section, key) {
            attach.set(key.name, &value);
        }
    }
    Some(attach)
}

/// Refuses keys that have no meaning for this attachment.
fn foreign_keys(section: &Section<'_>, attach: &Attach) {
    for name in keys::names(&keys::nic()).into_iter().filter(|name| section.has(name)) {
        let is_its = attach.keys().iter().any(|own| own.name == name);
        let what = attach::keys().find(|(key, _)| key.name == name).and_then(|(key, form)| match key.with {
            Some((with, what)) => (!section.has(with)).then(|| what.to_owned()),
            None => (!is_its).then(|| format!("only a NIC with attach = \"{form}\" has it; remove it")),
        });
        if let Some(what) = what {
            section.fault(section.line_of(name), name, what);
        }
    }
}

/// Value of a key, or its default; `None` for a key that is not stored with the attachment.
fn value_of(section: &Section<'_>, key: &Key) -> Option<String> {
    match &key.takes {
        Takes::Elsewhere => None,
        Takes::Text(example) => section.text(key.name, example).map(|at| at.value.to_owned()),
        Takes::Number(range) => {
            let is_there = section.has(key.name);
            is_there.then(|| section.number(key.name, range.clone(), *range.start()).to_string())
        }
        Takes::Flag => section.has(key.name).then(|| section.flag(key.name, false).to_string()),
        Takes::Word(words) => {
            let example = words.names().first().map_or(String::new(), |name| format!("{name:?}"));
            let at = section.text(key.name, &example);
            let found = at.filter(|WithLine { value, line }| {
                let wrong = words.find(value).err();
                wrong.map(|what| section.fault(*line, key.name, what)).is_none()
            });
            // A default that is none of the words stands for nothing.
            let default = words.find(key.shown.1).is_ok().then_some(key.shown.1);
            Some(found.map(|at| at.value).or(default)?.to_owned())
        }
    }
}

impl Router {
    /// Requirements that one of its NICs has for its attachment.
    pub fn wanted(&self, nic: &Nic) -> NicRequirements {
        NicRequirements {
            router: self.name.clone(),
            nic: nic.name.clone(),
            attach: nic.attach.clone(),
            queues: self.outer_queues(nic),
            pairs: nic.queues as usize,
            ring: nic.ring,
            mtu: nic.mtu,
            queue_len: nic.queue_len.most(),
            is_tuned: nic.queue_len == QueueLen::Auto,
            offload: nic.offload,
            hash: match nic.hash {
                FlowHash::Flow => Hash::Flow,
                FlowHash::Symmetric => Hash::Symmetric,
            },
            in_turn: false,
            mac: nic.mac.0,
            is_direct: nic.deliver == Deliver::Direct,
            is_polled: self.spin == Spin::Always,
            by_kernel: self.vhost == VhostThreads::Kernel,
            memory_max: nic.memory_max,
            in_kernel: self.is_in_kernel(),
            has_control: self.control.is_some(),
        }
    }
}

/// Most memory that a machine at the other end may share.
pub(crate) fn memory_max(section: &Section<'_>) -> u64 {
    valued(section, "memory_max", "\"64G\"", read_memory_max).unwrap_or(DEFAULT_MEMORY_MAX)
}

/// Parses a limit of memory in octets: `64M`, `3G`.
///
/// # Errors
/// One line: it is malformed or out of range.
pub fn read_memory_max(text: &str) -> Result<u64, String> {
    values::memory_within(text, &MEMORY_MAX)
}

/// Checks that the plan has the switch that an attachment names.
fn has_switch(attach: &Attach, plan: &Plan) -> Result<(), String> {
    let Some(name) = attach.switch() else { return Ok(()) };
    if plan.switches.iter().any(|switch| switch.name == name) {
        return Ok(());
    }
    if values::name(name).is_err() {
        return Err(format!("\"switch:{}\" names no switch; write e.g. \"switch:lan\"", name.escape_debug()));
    }
    let known: Vec<&str> = plan.switches.iter().map(|switch| switch.name.as_str()).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Err(format!("there is no switch {name:?}; add [switch.{name}], or use one of: {known}"))
}
