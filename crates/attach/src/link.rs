//! TAPs and macvtaps: links of the host's kernel that are created for a NIC, in whatever bridge or on
//! whatever interface.

mod early_drop;

use std::any::Any;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use port::steer::Hash;
use port::{Clock, Offloads, Sink, Source};
use sandbox::Confinement;
use serde_json::{Value, json};
use uplink::{
    LinkCounters, LinkTable, Membership, QueueLimit, ReadCounters, Spread, Tap, TapConfig, TapSource, Traits,
    WriteCounters,
};

use crate::urgent::unhindered;
use crate::{
    Attach, Attachment, DataPlaneChange, HandedOver, Health, HostInterfaces, HostResource, NicRequirements,
    Outside, Ports, Restored, ServiceContext, Watched, Work, kind,
};
use early_drop::EarlyDrop;

/// Passes of an I/O thread for each look at a queue of urgent frames.
const LOOK_EVERY: u32 = 16;

/// Returns the properties common to all of them.
pub(crate) fn traits() -> kind::AttachmentProperties {
    kind::AttachmentProperties {
        is_common: true,
        is_link: true,
        changes_interfaces: true,
        is_made: true,
        is_by_calls: true,
        ..kind::AttachmentProperties::default()
    }
}

/// Their counters.
pub(crate) const COUNTS: &[(&str, kind::Fields)] =
    &[("tap_read", ReadCounters::FIELDS), ("tap_write", WriteCounters::FIELDS)];

/// Returns the properties of a TAP in a bridge.
pub(crate) fn in_a_bridge(_: &Attach) -> kind::AttachmentProperties {
    kind::AttachmentProperties { needs_tun: true, ..traits() }
}

/// Returns the configuration of a NIC's TAP. Offloads are negotiated by the process that serves it.
pub(crate) fn config(wanted: &NicRequirements) -> TapConfig<'static> {
    TapConfig {
        queues: wanted.queues as u16,
        mtu: wanted.mtu,
        queue_len: wanted.queue_len,
        hash: Some(wanted.hash),
        in_turn: wanted.in_turn,
        // The kernel's own forwarding and vhost-net know no such queue.
        urgent: wanted.has_control && !wanted.in_kernel && !wanted.by_kernel,
        ..TapConfig::default()
    }
}

/// An open link.
#[derive(Debug)]
struct Link {
    tap: Tap,
    side: Side,
}

/// Side from which frames arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The host sends them out of the link.
    Host,
    /// They arrive from an interface below.
    Below {
        /// True if it has a MAC address of its own there.
        has_mac: bool,
    },
}

impl Side {
    /// Returns the frames that were lost because the queue before us was full.
    fn lost(self, counted: LinkCounters) -> u64 {
        if self == Self::Host { counted.tx_drops } else { counted.rx_drops }
    }
}

/// Wraps a link that was just created.
pub(crate) fn made(
    tap: Result<Tap, uplink::Error>,
    wanted: &NicRequirements,
    side: Side,
) -> Result<Box<dyn HostResource>> {
    let tap = if wanted.is_tuned { tap?.with_requests()? } else { tap? };
    Ok(Box::new(Link { tap, side }))
}

/// Adopts a link that was opened elsewhere, and its channel for queue length requests.
fn parts(mut handed: HandedOver) -> Result<(Tap, Option<OwnedFd>)> {
    let (interface, traits, has_wishes): (String, Traits, bool) = handed.parts()?;
    let wishes = if has_wishes { Some(handed.last()?) } else { None };
    Ok((Tap::from_descriptors(&interface, handed.descriptors, traits)?, wishes))
}

/// Adopts a link that was opened elsewhere.
///
/// # Errors
/// It is of another kind.
pub fn tap(handed: HandedOver) -> Result<Tap> {
    parts(handed).map(|(tap, _)| tap)
}

/// See [`kind::Place::Outside`].
pub(crate) fn serve(handed: HandedOver, _: &NicRequirements, _: Confinement) -> Result<Arc<dyn Attachment>> {
    let (tap, wishes) = parts(handed)?;
    Ok(Arc::new(Port { tap, wishes }))
}

/// Wraps a link for the process that opened it.
pub fn link(tap: Tap) -> Box<dyn HostResource> {
    Box::new(Link { tap, side: Side::Host })
}

impl HostResource for Link {
    fn hand_over(&self) -> (Value, Vec<BorrowedFd<'_>>) {
        let (tap, wishes) = (&self.tap, self.tap.requests());
        // The channel for queue length requests follows the queues.
        let what = json!([tap.name(), tap.traits(), wishes.is_some()]);
        (what, tap.descriptors().chain(wishes).collect())
    }

    /// Without a change of requirements the link is not touched: it may be in another namespace by now.
    fn resize(&self, before: &NicRequirements, now: &NicRequirements) -> Option<Work> {
        let has_mac = self.side == (Side::Below { has_mac: true });
        let mac = Some(now.mac).filter(|mac| has_mac && *mac != before.mac);
        let is_sized = (before.mtu, before.queue_len) != (now.mtu, now.queue_len) || mac.is_some();
        let (hash, in_turn) = (now.hash, now.in_turn);
        let is_spread_anew = (hash, in_turn) != (before.hash, before.in_turn);
        if !is_sized && !is_spread_anew {
            return None;
        }
        let (tap, config) = (self.tap.try_clone(), TapConfig { mac, ..config(now) });
        Some(Box::new(move || {
            let tap = tap?;
            if is_sized {
                tap.resize(&config)?;
            }
            if is_spread_anew {
                let spread = if in_turn { tap.spread_in_turn() } else { tap.spread_by(hash) };
                spread?;
            }
            Ok(())
        }))
    }

    fn inherit(&mut self, old: &mut dyn HostResource) {
        let old: &mut dyn Any = old;
        if let Some(old) = old.downcast_mut::<Self>() {
            self.tap.inherit(&mut old.tap);
        }
    }

    fn turn(&mut self, _: DataPlaneChange) -> Result<()> {
        Ok(())
    }

    fn watch(&self) -> Option<Box<dyn Watched>> {
        Some(Box::new(Self { tap: self.tap.try_clone().ok()?, side: self.side }))
    }

    fn lost(&self, table: &LinkTable) -> Option<u64> {
        table.of(self.tap.name()).map(|counted| self.side.lost(counted) + self.tap.lost_copies())
    }

    fn notice(&self) -> Option<String> {
        self.tap.notice()
    }

    fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.tap.request_bell()
    }

    fn attend(&self) -> Option<Work> {
        let (frames, tap) = (self.tap.last_request()?, self.tap.try_clone().ok()?);
        Some(Box::new(move || {
            // A link that refuses this was moved or deleted, which is reported elsewhere.
            let _ = tap.set_queue_len(frames);
            Ok(())
        }))
    }
}

/// In whatever namespace it is.
impl Watched for Link {
    fn look(&self, host: &HostInterfaces) -> Health {
        let is_there = self.tap.is_there();
        let moved = host.table.as_ref().filter(|table| table.of(self.tap.name()).is_none());
        let counted = moved.and_then(|table| self.tap.kernel_counters(table));
        Health {
            is_there,
            is_in_place: !is_there || self.tap.membership().is_none_or(Membership::seems_attached),
            cable: host.links.as_ref().and_then(|links| self.tap.cable(links)),
            lost: counted.map(|counted| self.side.lost(counted) + self.tap.lost_copies()),
        }
    }

    fn restore(&self) -> Result<Restored> {
        let Some(member) = self.tap.membership() else { bail!("it belongs nowhere") };
        Ok(Restored { was_out: member.restore()?, place: member.place() })
    }
}

/// A link being served; each start of a router serves a duplicate.
struct Port {
    tap: Tap,
    wishes: Option<OwnedFd>,
}

impl Attachment for Port {
    /// Each thread gets a queue of the link, as far as they go. The kernel spreads the frames by our hash if
    /// it supports that; otherwise by flow as well, but by its own hash, which puts both directions of a flow
    /// together only at this link and not with those at other NICs.
    fn ports(&self, service: &ServiceContext<'_>) -> Result<Ports> {
        let (mut tap, wanted) = (self.tap.try_clone()?, service.wanted);
        if !wanted.offload {
            tap.limit(Offloads::NONE);
        }
        let is_spread = *tap.traits().spread() == Spread::Ours || wanted.hash == Hash::Flow;
        let has_urgent = tap.traits().has_urgent_queue();
        let (mut read, mut written) = (Vec::new(), Vec::new());
        let (mut sources, mut sinks) = (Vec::<Box<dyn Source>>::new(), Vec::<Arc<dyn Sink>>::new());
        for (source, sink) in tap.into_ports() {
            read.push(source.counters());
            written.push(sink.counters());
            // The length applies to all queues: the first one is tuned, as flows are spread evenly.
            sources.push(if sources.is_empty() { self.tuned(source, service)? } else { Box::new(source) });
            sinks.push(sink);
        }
        // The last queue is for urgent frames alone; what leaves takes the others.
        let urgent =
            if has_urgent { sources.pop().map(|source| unhindered(source, LOOK_EVERY)) } else { None };
        sinks.truncate(sources.len());
        ensure!(!sinks.is_empty(), "a TAP without a queue");
        let outside = Outside::counting(move |visit| {
            let (all_read, all_written) = Default::default();
            read.iter().for_each(|queue| ReadCounters::add_all(&all_read, queue));
            written.iter().for_each(|queue| WriteCounters::add_all(&all_written, queue));
            visit("tap.read", &all_read);
            visit("tap.write", &all_written);
        });
        Ok(Ports { sources, is_spread, sinks, urgent, outside, ..Ports::default() })
    }

    fn replace(&self, by: HandedOver) -> Result<()> {
        Ok(self.tap.replace(&tap(by)?)?)
    }
}

impl Port {
    /// Returns the source itself, or one with a tuned queue length, if the file says so and a process can
    /// change it.
    fn tuned(&self, source: TapSource, service: &ServiceContext<'_>) -> Result<Box<dyn Source>> {
        let wishes = self.wishes.as_ref().filter(|_| service.wanted.is_tuned);
        let Some(wishes) = wishes else { return Ok(Box::new(source)) };
        let limit = QueueLimit(wishes.try_clone()?);
        let (ring, first) = (service.wanted.ring, service.wanted.queue_len);
        Ok(Box::new(EarlyDrop::new(
            Clock::default(),
            (source, service.queues.common_sink()),
            limit,
            ring,
            first,
        )))
    }
}

#[cfg(test)]
mod tests;
