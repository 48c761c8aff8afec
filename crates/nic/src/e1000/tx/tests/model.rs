//! Reference model: the results of a list of descriptors according to the manual, without regard to bursts, memory or
//! speed. A packet is the concatenation of its descriptors' buffers.

use super::*;

/// One descriptor, with the contents of its buffer.
#[derive(Clone, Debug)]
pub(super) enum Given {
    Legacy { octets: Vec<u8>, command: u8, cso: u8, css: u8, special: u16 },
    Data { octets: Vec<u8>, command: u8, options: u8, special: u16 },
    Context(Context),
}

/// Expected results of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) frames: Vec<Vec<u8>>,
    /// Drops: too short, too long, inconsistent.
    pub(super) drops: (u64, u64, u64),
    /// Packets that were segmented, and those whose segmentation failed.
    pub(super) segmented: (u64, u64),
}

/// The internet checksum by its definition (RFC 1071).
pub(super) fn textbook(octets: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in octets.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn be16(octets: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([octets[at], octets[at + 1]])
}

fn set16(octets: &mut [u8], at: usize, value: usize) {
    octets[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
}

/// Stores a checksum if its field and the first octet covered lie in the frame.
fn store_sum(frame: &mut [u8], start: u8, at: u8, end: u16, zero_as_ones: bool) {
    let (start, at) = (usize::from(start), usize::from(at));
    let until = if end == 0 { frame.len() } else { frame.len().min(usize::from(end) + 1) };
    if start >= until || at + 2 > frame.len() {
        return;
    }
    let sum = textbook(&frame[start..until]);
    set16(frame, at, if sum == 0 && zero_as_ones { 0xffff } else { sum.into() });
}

/// Returns the frame with its tag and its padding.
fn dressed(frame: Vec<u8>, tag: Option<u16>, settings: &TxSettings) -> Vec<u8> {
    let mut frame = frame;
    if let Some(tag) = tag {
        let tag = [settings.vlan_type.to_be_bytes(), tag.to_be_bytes()].concat();
        frame.splice(12..12, tag);
    }
    if settings.pad_short && frame.len() < 60 {
        frame.resize(60, 0);
    }
    frame
}

impl Given {
    fn octets(&self) -> &[u8] {
        match self {
            Self::Legacy { octets, .. } | Self::Data { octets, .. } => octets,
            Self::Context(_) => &[],
        }
    }

    pub(super) fn command(&self) -> u8 {
        match self {
            Self::Legacy { command, .. } | Self::Data { command, .. } => *command,
            Self::Context(context) => context.command,
        }
    }

    fn tag(&self, settings: &TxSettings) -> Option<u16> {
        let (Self::Legacy { special, .. } | Self::Data { special, .. }) = self else { return None };
        (settings.vlan && self.command() & tx::VLE != 0).then_some(*special)
    }
}

/// Writes the descriptor to memory.
pub(super) fn push(guest: &mut Guest, given: &Given) {
    let address = if given.octets().is_empty() { START } else { guest.store(given.octets()) };
    let len = given.octets().len();
    match *given {
        Given::Legacy { command, cso, css, special, .. } => {
            guest.push(Legacy { address, length: len as u16, cso, command, status: 0, css, special });
        }
        Given::Data { command, options, special, .. } => {
            guest.push(Data { address, length: len as u32, command, status: 0, options, special });
        }
        Given::Context(context) => guest.push(context),
    }
}

/// Computes the results of a list.
pub(super) fn outcome(list: &[Given], settings: &TxSettings) -> Outcome {
    let (mut normal, mut segmentation) = (Context::default(), Context::default());
    let (mut outcome, mut packet) = (Outcome::default(), Vec::<&Given>::new());
    // Contexts at the beginning of the packet.
    let mut contexts = (normal, segmentation);
    for given in list {
        if let Given::Context(context) = given {
            *(if context.command & tx::TSE != 0 { &mut segmentation } else { &mut normal }) = *context;
            continue;
        }
        if packet.is_empty() {
            contexts = (normal, segmentation);
        }
        packet.push(given);
        if given.command() & tx::EOP != 0 {
            sent(&packet, contexts, settings, &mut outcome);
            packet.clear();
        }
    }
    outcome
}

fn sent(packet: &[&Given], contexts: (Context, Context), settings: &TxSettings, outcome: &mut Outcome) {
    let octets: Vec<u8> = packet.iter().flat_map(|given| given.octets()).copied().collect();
    let (first, last) = (packet[0], packet[packet.len() - 1]);
    let options = if let Given::Data { options, .. } = first { *options } else { 0 };
    if matches!(first, Given::Data { command, .. } if command & tx::TSE != 0) {
        return cut(&octets, (contexts.1, options), first.tag(settings), settings, outcome);
    }
    let tag = last.tag(settings);
    if octets.len() + 4 * usize::from(tag.is_some()) > settings.longest + 4 {
        outcome.drops.1 += 1;
        return;
    }
    if octets.len() < 14 {
        outcome.drops.0 += 1;
        return;
    }
    let (mut frame, context) = (octets, contexts.0);
    if options & tx::TXSM != 0 {
        store_sum(&mut frame, context.tcp_start, context.tcp_offset, context.tcp_end, true);
    }
    if options & tx::IXSM != 0 {
        store_sum(&mut frame, context.ip_start, context.ip_offset, context.ip_end, false);
    }
    if let Given::Legacy { command, cso, css, .. } = last
        && command & tx::IC != 0
    {
        store_sum(&mut frame, *css, *cso, 0, false);
    }
    outcome.frames.push(dressed(frame, tag, settings));
}

fn cut(
    octets: &[u8],
    (context, options): (Context, u8),
    tag: Option<u16>,
    settings: &TxSettings,
    outcome: &mut Outcome,
) {
    let (tcp, ipv4) = (context.command & tx::TCP != 0, context.command & tx::IP != 0);
    let any = !tcp && !ipv4;
    let (header, payload) = (usize::from(context.header), context.payload as usize);
    let least_ip = usize::from(context.ip_start) + if ipv4 { 20 } else { 40 };
    let least_transport = usize::from(context.tcp_start) + if tcp { 20 } else { 8 };
    let largest = payload.min(usize::from(context.mss));
    if largest == 0 || header < 14 || !any && header < least_ip.max(least_transport) {
        outcome.drops.2 += 1;
        outcome.segmented.1 += 1;
        return;
    }
    if header + largest + 4 * usize::from(tag.is_some()) > settings.longest + 4 {
        outcome.drops.1 += 1;
        outcome.segmented.1 += 1;
        return;
    }
    let Some((head, rest)) = octets.split_at_checked(header) else {
        outcome.drops.0 += 1;
        outcome.segmented.1 += 1;
        return;
    };
    let taken = &rest[..rest.len().min(payload)];
    let chunks: Vec<&[u8]> = taken.chunks(context.mss.into()).collect();
    outcome.drops.2 += u64::from(chunks.is_empty());
    *(if rest.len() == payload { &mut outcome.segmented.0 } else { &mut outcome.segmented.1 }) += 1;
    for (i, chunk) in chunks.iter().enumerate() {
        let mut frame = [head, chunk].concat();
        let place = Place { number: i, before: i * usize::from(context.mss), last: i + 1 == chunks.len() };
        change(&mut frame, &context, &place, options);
        outcome.frames.push(dressed(frame, tag, settings));
    }
}

/// Position of a segment.
struct Place {
    number: usize,
    /// Octets of payload before it.
    before: usize,
    last: bool,
}

fn change(frame: &mut [u8], context: &Context, place: &Place, options: u8) {
    let (tcp, ipv4) = (context.command & tx::TCP != 0, context.command & tx::IP != 0);
    let (ip, transport, len) = (usize::from(context.ip_start), usize::from(context.tcp_start), frame.len());
    if be16(frame, 12) < 0x600 {
        set16(frame, 12, len - 14);
    }
    if ipv4 {
        set16(frame, ip + 2, len - ip);
        set16(frame, ip + 4, usize::from(be16(frame, ip + 4)) + place.number);
    } else if tcp {
        set16(frame, ip + 4, len - ip - 40);
    }
    if tcp {
        let high = u32::from(be16(frame, transport + 4)) << 16;
        let sequence = (high | u32::from(be16(frame, transport + 6))).wrapping_add(place.before as u32);
        frame[transport + 4..transport + 8].copy_from_slice(&sequence.to_be_bytes());
        if !place.last {
            frame[transport + 13] &= 0xf6;
        }
        if place.number > 0 {
            frame[transport + 13] &= 0x7f;
        }
    } else if ipv4 {
        set16(frame, transport + 4, len - transport);
    }
    let at = usize::from(context.tcp_offset);
    if options & tx::TXSM != 0 {
        if (tcp || ipv4) && at + 2 <= len {
            let sum = usize::from(be16(frame, at)) + len.saturating_sub(transport);
            set16(frame, at, (sum & 0xffff) + (sum >> 16));
        }
        store_sum(frame, context.tcp_start, context.tcp_offset, context.tcp_end, true);
    }
    if options & tx::IXSM != 0 {
        store_sum(frame, context.ip_start, context.ip_offset, context.ip_end, false);
    }
}
