//! Counters of packets that the kernel drops, by interface and reason. The program is attached to the tracepoint `skb:kfree_skb`,
//! which fires for dropped packets only. It counts for watched interfaces, identified by network namespace and index. A packet is
//! attributed to its `skb->dev`: to the interface by which it arrived until the kernel has chosen an output interface, and to
//! that one afterwards.

mod program;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use bpf::{Btf, Kind, Map, Purpose, attach_to_tracepoint};

use crate::{Error, Reasons};
use program::{COUNTERS, Maps, Offsets, REASONS};

/// Identity of an interface on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interface {
    /// Inode number of its network namespace (`ls -L -i /run/netns/NAME`).
    pub namespace: u32,
    /// Index in that namespace.
    pub index: u32,
}

impl Interface {
    /// Map key in the layout in which the program builds it on its stack: the index in the low 32 bits.
    const fn key(self) -> u64 {
        (self.namespace as u64) << 32 | self.index as u64
    }
}

/// Drop counters of up to a fixed number of interfaces. Dropping this value detaches the program.
#[derive(Debug)]
pub struct DropCounters {
    slots: Map<u64>,
    counters: Map,
    /// Array slots of watched interfaces; `free` has the unused ones.
    known: BTreeMap<Interface, u32>,
    free: Vec<u32>,
    reasons: Reasons,
    most: u32,
    _attached: OwnedFd,
}

impl DropCounters {
    /// Attaches the program, with room for `most` interfaces.
    ///
    /// # Errors
    /// The caller lacks CAP_BPF or CAP_PERFMON, or the kernel exports no BTF.
    pub fn start(most: u32) -> Result<Self, Error> {
        let types = Btf::of_kernel().map_err(|e| Error::NoTypes { why: e.to_string() })?;
        let offsets = offsets(&types)?;
        let failed = |e| Error::bpf("creating a map for drop counters", e);
        let most = most.max(1);
        let slots = Map::with_u64_keys(Kind::Hash, 8, most).map_err(failed)?;
        let counters = Map::new(Kind::Array, COUNTERS, most).map_err(failed)?;
        let maps = Maps { slots: slots.as_fd(), counters: counters.as_fd() };
        let code = program::assemble(&offsets, &maps);
        let program = bpf::load_as(program::LICENCE, Purpose::Tracepoint, &code)
            .map_err(|e| Error::bpf("loading a program that counts drops", e))?;
        let attached = attach_to_tracepoint("kfree_skb", program.as_fd())
            .map_err(|e| Error::bpf("attaching to a tracepoint", e))?;
        let values = types.values("skb_drop_reason").unwrap_or_default();
        let free = (0..most).rev().collect();
        let known = BTreeMap::new();
        let reasons = Reasons::read(values);
        Ok(Self { slots, counters, known, free, reasons, most, _attached: attached })
    }

    /// Starts counting for an interface, from zero.
    ///
    /// # Errors
    /// The maximum number of interfaces is watched already.
    pub fn watch(&mut self, interface: Interface) -> Result<(), Error> {
        if self.known.contains_key(&interface) {
            return Ok(());
        }
        let full = Error::Range { what: "the number of interfaces", found: self.most + 1, most: self.most };
        let place = self.free.pop().ok_or(full)?;
        let begun = self.counters.put(place, &[0; COUNTERS as usize]).and_then(|()| {
            let place: u64 = place.into();
            self.slots.put(interface.key(), &place.to_ne_bytes())
        });
        if let Err(answer) = begun {
            self.free.push(place);
            return Err(Error::bpf("counting the drops of an interface", answer));
        }
        self.known.insert(interface, place);
        Ok(())
    }

    /// Stops counting for an interface.
    pub fn forget(&mut self, interface: Interface) {
        if let Some(place) = self.known.remove(&interface) {
            // Cannot fail: the key was inserted by `watch`.
            let _ = self.slots.remove(interface.key());
            self.free.push(place);
        }
    }

    /// Returns the drops of an interface so far: the reasons with a non-zero count. `other` sums up reasons outside the kernel's
    /// core enumeration. `None`: the interface is not watched.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn counted(&self, interface: Interface) -> Result<Option<BTreeMap<String, u64>>, Error> {
        let Some(place) = self.known.get(&interface) else { return Ok(None) };
        let mut words = [0; REASONS as usize];
        self.counters.get(*place, &mut words).map_err(|e| Error::bpf("reading drop counters", e))?;
        let named = |(reason, count): (usize, u64)| {
            let reason = reason as u32;
            let name = if reason + 1 == REASONS { "other".to_owned() } else { self.reasons.name(reason) };
            (count > 0).then_some((name, count))
        };
        Ok(Some(words.into_iter().enumerate().filter_map(named).collect()))
    }
}

/// Offsets of the structure members that the program reads, in the running kernel.
fn offsets(types: &Btf) -> Result<Offsets, Error> {
    let offset = |structure: &str, path: &[&str]| {
        let why = || format!("no {structure}.{}", path.join("."));
        types.offset(structure, path).ok_or_else(|| Error::NoTypes { why: why() })
    };
    Ok(Offsets {
        device: offset("sk_buff", &["dev"])?,
        index: offset("net_device", &["ifindex"])?,
        namespace: offset("net_device", &["nd_net", "net"])?,
        inode: offset("net", &["ns", "inum"])?,
    })
}

#[cfg(test)]
mod tests;
