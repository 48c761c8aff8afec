//! Describes what became of a packet.

use std::collections::BTreeMap;

use api::{Fate, Hop, Packet};
use config::way::WayQuestion;

use super::board::Spot;
use super::drop_counters::Drops;
use super::follow::{Sight, TracedPacket};
use super::gateway::{Finder, Found, named};
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

/// Returns the report of a packet; with what is to be asked elsewhere to complete it, and of which router.
pub(super) fn tell(
    mut followed: TracedPacket,
    now: &Drops,
    find: Finder<'_>,
) -> (Packet, Option<(String, WayQuestion)>) {
    let (fate, asked) = fate(&followed, now, find);
    followed.sights.sort_by_key(progress);
    let hops = followed.sights.iter().enumerate().map(|(number, sight)| hop(number, sight)).collect();
    let first = followed.sights.first().map(|sight| &sight.head);
    let packet = Packet {
        number: followed.number,
        at_ns: followed.at.as_nanos() as u64,
        len: first.map_or(0, |head| head.frame_len),
        headers: first.map(ToString::to_string).unwrap_or_default(),
        hops,
        fate,
    };
    (packet, asked)
}

fn hop(number: usize, sight: &Sight) -> Hop {
    let seen = match (sight.head.identity(), number) {
        (Identity::Ip(ip), 1..) => format!("ttl {} to {}", ip.ttl, sight.head.station()),
        _ => format!("to {}", sight.head.station()),
    };
    let seen = if sight.lost { format!("{seen}, not taken") } else { seen };
    Hop { place: sight.place.name(), after_ns: sight.after.as_nanos() as u64, seen }
}

/// Looks for the way by which a packet left that was seen last at this place, as it arrived at the same router.
fn way(followed: &TracedPacket, left: &Sight, find: Finder<'_>) -> Found {
    let is_arrival = |sight: &&Sight| sight.place.router == left.place.router && sight.place.spot == Spot::Rx;
    let arrived = followed.sights.iter().find(is_arrival);
    arrived.map_or_else(Found::default, |arrived| find(&arrived.head, left))
}

fn fate(followed: &TracedPacket, now: &Drops, find: Finder<'_>) -> (Fate, Option<(String, WayQuestion)>) {
    let counters = drops(followed, now);
    if let Some(answer) = &followed.answer {
        let fate = Fate::Answered {
            nic: answer.place.nic_name(),
            answer: answer.head.to_string(),
            after_ns: answer.after.as_nanos() as u64,
            counters,
        };
        return (fate, None);
    }
    match last(followed) {
        Some(last) if last.lost => (Fate::NotPlaced { place: last.place.name(), counters }, None),
        Some(left) if matches!(left.place.spot, Spot::Tx { .. }) => {
            let Found { way, question } = way(followed, left, find);
            let fate = Fate::Left {
                nic: left.place.nic_name(),
                next_hop: left.head.destination().to_string(),
                route: way.as_ref().and_then(named),
                via: way.and_then(|way| way.gateway).map(|gateway| gateway.to_string()),
                after_ns: left.after.as_nanos() as u64,
            };
            (fate, question.map(|question| (left.place.router.clone(), question)))
        }
        last => {
            let last = last.map(|sight| sight.place.name()).unwrap_or_default();
            (Fate::NotSeen { last, counters }, None)
        }
    }
}
