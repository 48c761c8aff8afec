//! TAPs and macvtaps: links of the host's kernel that are made for a NIC, whatever they are put into.

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

use crate::{
    Attach, Attachment, Handed, Health, Opened, Outside, Ports, Restored, Site, Turn, View, Wanted, Watched,
    Work, kind,
};
use early_drop::EarlyDrop;

/// What the rest of a plan has to know of all of them.
pub(crate) fn traits() -> kind::Traits {
    kind::Traits {
        is_common: true,
        is_link: true,
        changes_interfaces: true,
        is_made: true,
        is_by_calls: true,
        ..kind::Traits::default()
    }
}

/// What they count.
pub(crate) const COUNTS: &[(&str, kind::Fields)] =
    &[("tap_read", ReadCounters::FIELDS), ("tap_write", WriteCounters::FIELDS)];

/// Of a TAP in a bridge.
pub(crate) fn in_a_bridge(_: &Attach) -> kind::Traits {
    kind::Traits { needs_tun: true, ..traits() }
}

/// How the TAP of a NIC is to be. What may be left to it is for whoever serves it to say.
pub(crate) fn config(wanted: &Wanted) -> TapConfig<'static> {
    TapConfig {
        queues: wanted.queues as u16,
        mtu: wanted.mtu,
        queue_len: wanted.queue_len,
        hash: Some(wanted.hash),
        ..TapConfig::default()
    }
}

/// A link that is open.
#[derive(Debug)]
struct Link {
    tap: Tap,
    side: Side,
}

/// From where frames come to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The host sends them into it.
    Host,
    /// An interface below.
    Below {
        /// Whether it has an address of its own there.
        has_mac: bool,
    },
}

impl Side {
    /// Frames that were lost because the queue before us was full.
    fn lost(self, counted: LinkCounters) -> u64 {
        if self == Self::Host { counted.tx_drops } else { counted.rx_drops }
    }
}

/// A link that was made just now.
pub(crate) fn made(tap: Result<Tap, uplink::Error>, wanted: &Wanted, side: Side) -> Result<Box<dyn Opened>> {
    let tap = if wanted.is_tuned { tap?.with_wishes()? } else { tap? };
    Ok(Box::new(Link { tap, side }))
}

/// A link that was opened elsewhere, and where its queue length is wished for.
fn parts(mut handed: Handed) -> Result<(Tap, Option<OwnedFd>)> {
    let (interface, traits, has_wishes): (String, Traits, bool) = handed.parts()?;
    let wishes = if has_wishes { Some(handed.last()?) } else { None };
    Ok((Tap::from_descriptors(&interface, handed.descriptors, traits)?, wishes))
}

/// A link that was opened elsewhere.
///
/// # Errors
/// It is something else.
pub fn tap(handed: Handed) -> Result<Tap> {
    parts(handed).map(|(tap, _)| tap)
}

/// See [`kind::Place::Outside`].
pub(crate) fn serve(handed: Handed, _: &Wanted, _: Confinement) -> Result<Arc<dyn Attachment>> {
    let (tap, wishes) = parts(handed)?;
    Ok(Arc::new(Port { tap, wishes }))
}

/// A link as whoever opened it elsewhere has it.
pub fn link(tap: Tap) -> Box<dyn Opened> {
    Box::new(Link { tap, side: Side::Host })
}

impl Opened for Link {
    fn hand_over(&self) -> (Value, Vec<BorrowedFd<'_>>) {
        let (tap, wishes) = (&self.tap, self.tap.wishes());
        // What takes wishes for a queue length comes behind the queues.
        let what = json!([tap.name(), tap.traits(), wishes.is_some()]);
        (what, tap.descriptors().chain(wishes).collect())
    }

    /// Nobody touches a link of which nothing was asked: it may lie in another namespace by now.
    fn resize(&self, before: &Wanted, now: &Wanted) -> Option<Work> {
        let has_mac = self.side == (Side::Below { has_mac: true });
        let mac = Some(now.mac).filter(|mac| has_mac && *mac != before.mac);
        let is_sized = (before.mtu, before.queue_len) != (now.mtu, now.queue_len) || mac.is_some();
        let hash = Some(now.hash).filter(|hash| *hash != before.hash);
        if !is_sized && hash.is_none() {
            return None;
        }
        let (tap, config) = (self.tap.try_clone(), TapConfig { mac, ..config(now) });
        Some(Box::new(move || {
            let tap = tap?;
            if is_sized {
                tap.resize(&config)?;
            }
            if let Some(hash) = hash {
                tap.spread_by(hash)?;
            }
            Ok(())
        }))
    }

    fn succeed(&mut self, old: &mut dyn Opened) {
        let old: &mut dyn Any = old;
        if let Some(old) = old.downcast_mut::<Self>() {
            self.tap.succeed(&mut old.tap);
        }
    }

    fn turn(&mut self, _: Turn) -> Result<()> {
        Ok(())
    }

    fn watch(&self) -> Option<Box<dyn Watched>> {
        Some(Box::new(Self { tap: self.tap.try_clone().ok()?, side: self.side }))
    }

    fn lost(&self, table: &LinkTable) -> Option<u64> {
        table.of(self.tap.name()).map(|counted| self.side.lost(counted))
    }

    fn notice(&self) -> Option<String> {
        self.tap.notice()
    }

    fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.tap.wished()
    }

    fn attend(&self) -> Option<Work> {
        let (frames, tap) = (self.tap.wish()?, self.tap.try_clone().ok()?);
        Some(Box::new(move || {
            // A link that does not take it has been moved or deleted, which is told elsewhere.
            let _ = tap.fulfil(frames);
            Ok(())
        }))
    }
}

/// Wherever it lies.
impl Watched for Link {
    fn look(&self, host: &View) -> Health {
        let is_there = self.tap.is_there();
        let moved = host.table.as_ref().filter(|table| table.of(self.tap.name()).is_none());
        let counted = moved.and_then(|table| self.tap.kernel_counters(table));
        Health {
            is_there,
            is_in_place: !is_there || self.tap.membership().is_none_or(Membership::looks_well),
            cable: host.links.as_ref().and_then(|links| self.tap.cable(links)),
            lost: counted.map(|counted| self.side.lost(counted)),
        }
    }

    fn restore(&self) -> Result<Restored> {
        let Some(member) = self.tap.membership() else { bail!("it belongs nowhere") };
        Ok(Restored { was_out: member.restore()?, place: member.place() })
    }
}

/// A link that is served; each start of a router serves a duplicate.
struct Port {
    tap: Tap,
    wishes: Option<OwnedFd>,
}

impl Attachment for Port {
    /// Each thread has a queue of the link, as far as they go. The kernel spreads the frames by our hash where it takes that; else by
    /// flow too, but by a hash of its own, which puts the directions of a flow together only at this link and not with those at other
    /// NICs.
    fn ports(&self, site: &Site<'_>) -> Result<Ports> {
        let (mut tap, wanted) = (self.tap.try_clone()?, site.wanted);
        if !wanted.offload {
            tap.limit(Offloads::NONE);
        }
        let is_spread = *tap.traits().spread() == Spread::Ours || wanted.hash == Hash::Flow;
        let (mut read, mut written) = (Vec::new(), Vec::new());
        let (mut sources, mut sinks) = (Vec::<Box<dyn Source>>::new(), Vec::<Arc<dyn Sink>>::new());
        for (source, sink) in tap.into_ports() {
            read.push(source.counters());
            written.push(sink.counters());
            // One number is for all queues: the first one's is taken, as flows are spread evenly.
            sources.push(if sources.is_empty() { self.tuned(source, site)? } else { Box::new(source) });
            sinks.push(sink);
        }
        ensure!(!sinks.is_empty(), "a TAP without a queue");
        let outside = Outside::counting(move |visit| {
            let (all_read, all_written) = Default::default();
            read.iter().for_each(|queue| ReadCounters::add_all(&all_read, queue));
            written.iter().for_each(|queue| WriteCounters::add_all(&all_written, queue));
            visit("tap.read", &all_read);
            visit("tap.write", &all_written);
        });
        Ok(Ports { sources, is_spread, sinks, outside, ..Ports::default() })
    }

    fn replace(&self, by: Handed) -> Result<()> {
        Ok(self.tap.replace(&tap(by)?)?)
    }
}

impl Port {
    /// The source itself, or one whose queue is as long as the router can take, where the file says so and somebody can
    /// change it.
    fn tuned(&self, source: TapSource, site: &Site<'_>) -> Result<Box<dyn Source>> {
        let wishes = self.wishes.as_ref().filter(|_| site.wanted.is_tuned);
        let Some(wishes) = wishes else { return Ok(Box::new(source)) };
        let limit = QueueLimit(wishes.try_clone()?);
        let (ring, first) = (site.wanted.ring, site.wanted.queue_len);
        Ok(Box::new(EarlyDrop::new(
            Clock::default(),
            (source, site.queues.common_sink()),
            limit,
            ring,
            first,
        )))
    }
}

#[cfg(test)]
mod tests;
