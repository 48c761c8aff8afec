//! Describes what became of a packet.

use std::collections::BTreeMap;

use api::{Fate, Hop, Packet};

use super::board::Spot;
use super::drop_counters::Drops;
use super::follow::{Sight, TracedPacket};
use super::sighting::Identity;

/// Returns the last place that the packet passed. This is not the one recorded last: a switch delivers to the
/// next router before the tap point from which the frame came records it as passed.
pub(super) fn last(followed: &TracedPacket) -> Option<&Sight> {
    followed.sights.iter().max_by_key(|sight| progress(sight))
}

/// Returns how far a packet has come: each router decrements the time to live, and within a hop the order is
/// transmit ring, queue, receive ring.
fn progress(sight: &Sight) -> (u8, u8) {
    let routers = match sight.head.identity() {
        Identity::Ip(ip) => u8::MAX - ip.ttl,
        _ => 0,
    };
    let within = match sight.place.spot {
        Spot::Tx { .. } => 0,
        Spot::Queue => 1,
        Spot::Rx => 2,
    };
    (routers, within)
}

/// Returns the drop counters at the packet's last place that have moved since before it came.
pub(super) fn drops(followed: &TracedPacket, now: &Drops) -> BTreeMap<String, u64> {
    let Some(last) = last(followed) else { return BTreeMap::new() };
    let beginnings = match last.place.spot {
        Spot::Tx { to_switch: true } if !last.lost => vec!["switch.".to_owned()],
        _ if last.lost => vec![format!("{}.", last.place.nic_name())],
        _ => vec![format!("{}.", last.place.router)],
    };
    now.moved_since(&followed.before, &beginnings)
}

/// Returns the complete report of a packet.
pub(super) fn tell(mut followed: TracedPacket, now: &Drops) -> Packet {
    let fate = fate(&followed, now);
    followed.sights.sort_by_key(progress);
    let hops = followed.sights.iter().enumerate().map(|(number, sight)| hop(number, sight)).collect();
    let first = followed.sights.first().map(|sight| &sight.head);
    Packet {
        number: followed.number,
        at_ns: followed.at.as_nanos() as u64,
        len: first.map_or(0, |head| head.frame_len),
        headers: first.map(ToString::to_string).unwrap_or_default(),
        hops,
        fate,
    }
}

fn hop(number: usize, sight: &Sight) -> Hop {
    let seen = match (sight.head.identity(), number) {
        (Identity::Ip(ip), 1..) => format!("ttl {} to {}", ip.ttl, sight.head.destination()),
        _ => format!("to {}", sight.head.destination()),
    };
    let seen = if sight.lost { format!("{seen}, not taken") } else { seen };
    Hop { place: sight.place.name(), after_ns: sight.after.as_nanos() as u64, seen }
}

fn fate(followed: &TracedPacket, now: &Drops) -> Fate {
    let counters = drops(followed, now);
    if let Some(answer) = &followed.answer {
        return Fate::Answered {
            nic: answer.place.nic_name(),
            answer: answer.head.to_string(),
            after_ns: answer.after.as_nanos() as u64,
            counters,
        };
    }
    match last(followed) {
        Some(last) if last.lost => Fate::NotPlaced { place: last.place.name(), counters },
        Some(Sight { place, after, head, .. }) if matches!(place.spot, Spot::Tx { .. }) => Fate::Left {
            nic: place.nic_name(),
            next_hop: head.destination().to_string(),
            after_ns: after.as_nanos() as u64,
        },
        last => {
            let last = last.map(|sight| sight.place.name()).unwrap_or_default();
            Fate::NotSeen { last, counters }
        }
    }
}
