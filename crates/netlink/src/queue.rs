//! Queueing discipline at the root of an interface (tc(8), `linux/pkt_sched.h`): the queue in which the kernel keeps the frames to
//! be sent that the driver does not take.

use std::fmt;
use std::io;

use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};

use crate::Netlink;
use crate::attribute::{Attributes, attributes, number, text};

/// Octets of `struct tcmsg`.
const HEADER: usize = 20;
/// Attributes of a message (`TCA_KIND`, `TCA_OPTIONS`, `TCA_STATS2`). The options of pfifo and bfifo are nothing but the limit.
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const STATISTICS: u16 = 7;
/// The statistics of the queue (`TCA_STATS_QUEUE`).
const OF_QUEUE: u16 = 3;
/// The option of fq_codel that is its limit (`TCA_FQ_CODEL_LIMIT`).
const FQ_CODEL_LIMIT: u16 = 2;

/// Kind of a queueing discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// First in, first out; its limit is in frames (tc-pfifo(8)).
    Pfifo,
    /// First in, first out; its limit is in octets (tc-bfifo(8)).
    Bfifo,
    /// Fair queueing of flows with controlled delay (RFC 8290, tc-fq_codel(8)); its limit is in frames.
    FqCodel,
}

impl QueueKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Pfifo, Self::Bfifo, Self::FqCodel];

    /// Returns its name in the kernel.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pfifo => "pfifo",
            Self::Bfifo => "bfifo",
            Self::FqCodel => "fq_codel",
        }
    }

    /// Returns the kind of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A queueing discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Its kind.
    pub kind: QueueKind,
    /// What it holds at most: frames, or octets for [`QueueKind::Bfifo`].
    pub limit: u32,
}

impl fmt::Display for Queue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = if self.kind == QueueKind::Bfifo { "octets" } else { "frames" };
        write!(out, "{} of {} {unit}", self.kind.name(), self.limit)
    }
}

/// State of the queueing discipline of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// The discipline; `None`: there is none, or one of another kind.
    pub queue: Option<Queue>,
    /// Frames that it has dropped, modulo 2^32.
    pub drops: u64,
}

impl Netlink {
    /// Reads the queueing discipline of the interface with this index.
    ///
    /// # Errors
    /// ENODEV: there is no such interface.
    pub fn queue(&self, index: u32) -> io::Result<QueueState> {
        // The discipline of an interface that has never been up is not told.
        let told = self.one_queue(RouteNetlinkMessage::GetQueueDiscipline(root(index)))?;
        Ok(told.and_then(|message| read(&message)).unwrap_or_default())
    }

    /// Gives the interface with this index a queueing discipline, in the place of another one. A change of the limit keeps the
    /// frames that wait.
    ///
    /// # Errors
    /// ENODEV: there is no such interface. ENOENT: the kernel has no such discipline.
    pub fn set_queue(&self, index: u32, queue: Queue) -> io::Result<()> {
        let mut message = root(index);
        message.attributes.push(TcAttribute::Kind(queue.kind.name().to_owned()));
        message.attributes.push(TcAttribute::Other(DefaultNla::new(OPTIONS, options(queue))));
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        self.change(RouteNetlinkMessage::NewQueueDiscipline(message), flags)
    }

    /// Removes the queueing discipline of the interface with this index, which then has the default one again.
    ///
    /// # Errors
    /// ENODEV: there is no such interface. ENOENT: it has the default one.
    pub fn remove_queue(&self, index: u32) -> io::Result<()> {
        self.change(RouteNetlinkMessage::DelQueueDiscipline(root(index)), 0)
    }
}

/// A message about the discipline at the root of an interface.
fn root(index: u32) -> TcMessage {
    let mut message = TcMessage::with_index(index.cast_signed());
    message.header.parent = TcHandle::ROOT;
    message
}

/// Options that set the limit (`struct tc_fifo_qopt`, or attributes).
fn options(queue: Queue) -> Vec<u8> {
    match queue.kind {
        QueueKind::Pfifo | QueueKind::Bfifo => queue.limit.to_ne_bytes().to_vec(),
        QueueKind::FqCodel => Attributes::default().number(FQ_CODEL_LIMIT, queue.limit).octets().to_vec(),
    }
}

/// Reads a message about a discipline, without its header: `struct tcmsg`, and attributes. `None`: it is cut off.
pub(crate) fn read(message: &[u8]) -> Option<QueueState> {
    let (mut kind, mut options, mut drops) = (None, &[][..], 0);
    for (attribute, value) in attributes(message.get(HEADER..)?) {
        match attribute {
            KIND => kind = text(value).and_then(QueueKind::named),
            OPTIONS => options = value,
            STATISTICS => drops = dropped(value).unwrap_or(0),
            _ => {}
        }
    }
    let queue = kind.and_then(|kind| Some(Queue { kind, limit: limit(kind, options)? }));
    Some(QueueState { queue, drops: drops.into() })
}

/// The limit among the options of a discipline.
fn limit(kind: QueueKind, options: &[u8]) -> Option<u32> {
    match kind {
        QueueKind::Pfifo | QueueKind::Bfifo => number(options),
        QueueKind::FqCodel => find(options, FQ_CODEL_LIMIT).and_then(number),
    }
}

/// The drops among the statistics of a discipline (`struct gnet_stats_queue`: length, octets, drops, and more).
fn dropped(statistics: &[u8]) -> Option<u32> {
    number(find(statistics, OF_QUEUE)?.get(8..12)?)
}

fn find(octets: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(octets).find(|(attribute, _)| *attribute == wanted).map(|(_, value)| value)
}

#[cfg(test)]
mod tests;
