use port::ingress_fan;
use port::steer::Hash;
use ring::Bytes;

use super::*;

/// Frames of the ingress queue.
const QUEUE: u32 = 64;

/// A frame with an IPv4 packet of UDP to this port, as only a neighbour sends it.
fn datagram(port: u16) -> Vec<u8> {
    let header = [0x45, 0, 0, 46, 0, 0, 0, 0, 255, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    let [high, low] = port.to_be_bytes();
    [&[2; 12][..], &[8, 0], &header, &[0xc0, 0, high, low, 0, 26, 0, 0], &[0; 18]].concat()
}

fn arp() -> Vec<u8> {
    [&[0xff; 12][..], &[8, 6], &[0; 46]].concat()
}

/// Both queues, without a consumer.
struct Bench {
    past: Overtaking,
    plain: Box<dyn Source>,
    urgent: Box<dyn Source>,
}

impl Bench {
    fn new() -> Self {
        let (fan, mut sources) = ingress_fan(QUEUE, 1, Hash::Flow).expect("descriptors");
        let (past, urgent) = Overtaking::new(fan, QUEUE).expect("descriptors");
        Self { past, plain: Box::new(sources.remove(0)), urgent }
    }

    /// Delivers copies of a frame; returns how many were taken.
    fn deliver(&self, frame: &[u8], copies: usize) -> usize {
        let mut taken = 0;
        for _ in 0..copies {
            let mut octets = frame.to_vec();
            taken += self.past.deliver(&[Frame::new(Bytes::from_slice(&mut octets))]);
        }
        taken
    }
}

fn octets(frame: &Frame<'_>) -> Vec<u8> {
    let mut octets = vec![0; frame.len()];
    frame.octets().copy_to_slice(&mut octets);
    octets
}

/// Takes all frames of a source.
fn all(source: &mut dyn Source) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    loop {
        let before = found.len();
        source.drain(BURST, &mut |frames| found.extend(frames.iter().map(octets)));
        if found.len() == before {
            return found;
        }
    }
}

#[test]
fn while_few_frames_wait_they_stay_in_order() {
    let mut bench = Bench::new();
    for port in [3784, 9, 3784] {
        assert_eq!(bench.deliver(&datagram(port), 1), 1);
    }
    assert!(all(&mut *bench.urgent).is_empty());
    assert_eq!(all(&mut *bench.plain), [3784, 9, 3784].map(datagram));
}

#[test]
fn urgent_frames_find_a_way_past_a_full_queue_and_each_is_counted_once() {
    let mut bench = Bench::new();
    assert_eq!(bench.deliver(&datagram(9), 1000), QUEUE as usize);
    assert_eq!(bench.deliver(&datagram(3784), 3), 3);
    let mut burst = [datagram(9), datagram(3784), datagram(9)];
    let frames: Frames<'_> = burst.iter_mut().map(|frame| Frame::new(Bytes::from_slice(frame))).collect();
    assert_eq!(bench.past.deliver(&frames), 1);
    let counters = bench.past.counters();
    let (came, queued, lost) = (counters.in_frames.get(), counters.queued.get(), counters.drop_full.get());
    assert_eq!((came, queued, lost), (1006, u64::from(QUEUE) + 4, 1006 - u64::from(QUEUE) - 4));
    assert_eq!(all(&mut *bench.urgent), vec![datagram(3784); 4]);
    assert_eq!(all(&mut *bench.plain).len(), QUEUE as usize);
    assert!(!bench.urgent.waits(), "it is drained though the ring may be full");
}

#[test]
fn a_flood_of_a_less_urgent_class_leaves_room_for_the_others() {
    let mut bench = Bench::new();
    bench.deliver(&datagram(9), 1000);
    assert_eq!(bench.deliver(&arp(), 1000), LENGTH / 2);
    assert_eq!(bench.deliver(&datagram(520), 1000), LENGTH / 4);
    assert_eq!(bench.deliver(&datagram(4784), 1000), LENGTH / 8);
    assert_eq!(bench.deliver(&datagram(3784), 1000), LENGTH / 8);
    assert_eq!(all(&mut *bench.urgent).len(), LENGTH);
}

#[test]
fn in_a_fan_a_full_queue_suffices() {
    let (fan, mut sources) = ingress_fan(QUEUE, 2, Hash::Flow).expect("descriptors");
    let (past, urgent) = Overtaking::new(fan, QUEUE).expect("descriptors");
    let plain: Box<dyn Source> = Box::new(sources.remove(0));
    // One flow fills one of the queues.
    let mut bench = Bench { past, plain, urgent };
    bench.deliver(&datagram(9), 1000);
    assert_eq!(bench.deliver(&datagram(3784), 1), 1);
    assert_eq!(all(&mut *bench.urgent), [datagram(3784)]);
}
