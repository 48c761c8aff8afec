//! Queueing discipline at the root of an interface (tc(8), `linux/pkt_sched.h`): the queue in which the kernel keeps the frames to
//! be sent that the driver does not take.

use std::fmt;
use std::io;

use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_ECHO, NLM_F_REPLACE, Nla};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption, TcStats2};

use crate::attribute::{Attributes, number};
use crate::{Netlink, Object};

/// The attribute of a message that has the options (`TCA_OPTIONS`). Those of pfifo and bfifo are nothing but the limit.
const OPTIONS: u16 = 2;
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
    /// The kernel refuses.
    pub fn queue(&self, index: u32) -> io::Result<QueueState> {
        // Without the flag for an echo the kernel tells listeners only, and not who has asked.
        match self.one_with::<Report>(RouteNetlinkMessage::GetQueueDiscipline(root(index)), NLM_F_ECHO) {
            Ok(report) => Ok(report.state()),
            // The discipline of an interface that has never been up is not told.
            Err(e) if e.raw_os_error() == Some(libc::ENODEV) => Ok(QueueState::default()),
            Err(e) => Err(e),
        }
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

/// A discipline as the kernel reports it.
#[derive(Clone, Debug, PartialEq)]
struct Report {
    index: i32,
    kind: Option<QueueKind>,
    limit: Option<u32>,
    drops: u32,
}

impl Report {
    fn state(&self) -> QueueState {
        let queue = self.kind.zip(self.limit).map(|(kind, limit)| Queue { kind, limit });
        QueueState { queue, drops: self.drops.into() }
    }
}

impl Object for Report {
    /// Interface index.
    type Id = i32;
    type Variant = ();

    fn wanted() -> RouteNetlinkMessage {
        RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default())
    }

    fn read(message: RouteNetlinkMessage) -> Option<(bool, Self)> {
        let RouteNetlinkMessage::NewQueueDiscipline(message) = message else { return None };
        let mut report = Self { index: message.header.index, kind: None, limit: None, drops: 0 };
        for attribute in &message.attributes {
            match attribute {
                TcAttribute::Kind(name) => report.kind = QueueKind::named(name),
                TcAttribute::Options(options) => report.limit = options.iter().find_map(limit),
                TcAttribute::Stats2(parts) => report.drops = parts.iter().find_map(drops).unwrap_or(0),
                _ => {}
            }
        }
        Some((true, report))
    }

    fn key(&self) -> (i32, ()) {
        (self.index, ())
    }
}

/// The limit, if an option is it. The options of pfifo and bfifo are read as one option with the number of all options, which is
/// also that of fq_codel's limit.
fn limit(option: &TcOption) -> Option<u32> {
    let mut value = vec![0; option.value_len()];
    option.emit_value(&mut value);
    number(&value).filter(|_| option.kind() == FQ_CODEL_LIMIT)
}

fn drops(part: &TcStats2) -> Option<u32> {
    match part {
        TcStats2::Queue(queue) => Some(queue.drops),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
