//! Any frames, with any settings, into any number of buffers: the results equal those of a naive device.

use proptest::prelude::*;

use super::*;

/// Kind and length of a frame.
#[derive(Clone, Copy, Debug)]
enum Sent {
    Own(usize),
    Stranger(usize),
    Tagged(usize),
}

fn sent() -> impl Strategy<Value = Sent> {
    let len = prop_oneof![Just(60_usize), 0..70usize, 200..300usize, 14..3000usize];
    prop_oneof![
        6 => len.clone().prop_map(Sent::Own),
        1 => len.clone().prop_map(Sent::Stranger),
        1 => len.prop_map(Sent::Tagged),
    ]
}

impl Sent {
    fn octets(self, number: u8) -> Vec<u8> {
        match self {
            Self::Own(len) => frame(number, len),
            Self::Stranger(len) => {
                let mut octets = frame(number, len);
                if let Some(last) = octets.get_mut(5) {
                    *last ^= 1;
                }
                octets
            }
            Self::Tagged(len) => {
                let octets = frame(number, len.max(14));
                [&octets[..12], &[0x81, 0, 0x20, number], &octets[12..]].concat()
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Wishes {
    buffer_len: u32,
    fcs: bool,
    vlan: bool,
    promiscuous: bool,
}

impl Wishes {
    fn settings(self) -> RxSettings {
        let mut filters = (*plain().filters).clone();
        (filters.unicast, filters.multicast) = (self.promiscuous, self.promiscuous);
        let Self { buffer_len, fcs, vlan, .. } = self;
        RxSettings { buffer_len, fcs, vlan, longest: 2500, filters: Arc::new(filters), ..plain() }
    }

    /// Returns the octets stored of a frame, if any.
    fn stored(self, octets: &[u8]) -> Option<(Vec<u8>, Option<u16>)> {
        if octets.len() < 14 || octets.len() > 2500 || (!self.promiscuous && octets[..6] != OWN) {
            return None;
        }
        let mut wire = octets.to_vec();
        wire.resize(octets.len().max(60), 0);
        let tag =
            (self.vlan && octets[12..14] == [0x81, 0]).then(|| u16::from_be_bytes([octets[14], octets[15]]));
        if tag.is_some() {
            wire.drain(12..16);
        }
        if self.fcs {
            wire.extend([0; 4]);
        }
        Some((wire, tag))
    }
}

proptest! {
    #[test]
    fn what_arrives_is_what_a_naive_device_stores(
        bursts in prop::collection::vec((prop::collection::vec(sent(), 0..70), 0..64u64), 1..8),
        buffer_len in prop_oneof![Just(2048_u32), Just(1024), Just(512), Just(256)],
        (fcs, vlan, promiscuous, block) in any::<(bool, bool, bool, bool)>(),
    ) {
        let wishes = Wishes { buffer_len, fcs, vlan, promiscuous };
        let mut guest = Guest::new(64, block);
        let mut queue = guest.queue(wishes.settings());
        let ledger = NicDirection::default();
        let (mut given, mut expected, mut came) = (0, Vec::new(), Vec::new());
        for (burst, posted) in bursts {
            let free = guest.driver().free() as u64;
            guest.post(posted.min(free));
            let frames: Vec<_> = burst.iter().zip(0..).map(|(sent, number)| sent.octets(number)).collect();
            let room = queue.room();
            let filled = fill(&mut queue, &ledger, &frames);
            given += filled.taken as u64;
            let stored: Vec<_> = frames[..filled.taken].iter().filter_map(|octets| wishes.stored(octets)).collect();
            let buffers = |stored: &(Vec<u8>, _)| stored.0.len().div_ceil(buffer_len as usize);
            let used: usize = stored.iter().map(buffers).sum();
            prop_assert!(used <= room);
            if let Some(next) = frames.get(filled.taken).filter(|_| filled.taken < BURST) {
                prop_assert!(wishes.stored(next).is_some_and(|next| used + buffers(&next) > room), "it would fit");
            }
            expected.extend(stored);
            came.extend(guest.back());
        }
        let mut pieces = came.into_iter();
        for (octets, tag) in &expected {
            let (mut content, mut last) = (Vec::new(), Received::default());
            for piece in octets.chunks(buffer_len as usize) {
                let (octets, received) = pieces.next().unwrap();
                prop_assert_eq!(octets.len(), piece.len());
                content.extend(octets);
                prop_assert_eq!(last.status & rx::EOP, 0);
                last = received;
            }
            prop_assert_eq!(&content, octets);
            prop_assert_eq!(last.status & (rx::EOP | rx::DD), rx::EOP | rx::DD);
            prop_assert_eq!((last.status & rx::VP != 0).then_some(last.special), *tag);
        }
        prop_assert!(pieces.next().is_none());
        let dropped = ledger.drop_filtered.get() + ledger.drop_too_long.get() + ledger.drop_too_short.get();
        prop_assert_eq!(ledger.frames.get(), expected.len() as u64);
        prop_assert_eq!(ledger.frames.get() + dropped, given, "in = out + named drops");
    }
}
