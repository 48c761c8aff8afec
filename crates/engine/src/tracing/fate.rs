//! What became of a packet, put into words.

use std::collections::BTreeMap;

use api::{Fate, Hop, Packet};

use super::board::Spot;
use super::follow::{Followed, Sight};
use super::moved::Drops;
use super::sighting::Identity;

/// The place that the packet came to last. Not the one noted last: a switch has delivered to the next router before the
/// place from which it came is passed.
pub(super) fn last(followed: &Followed) -> Option<&Sight> {
    followed.sights.iter().max_by_key(|sight| progress(sight))
}

/// How far a packet has come: routers count its time to live down, and in each it passes queue, ring and ring.
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

/// Counters of drops that moved since before the packet came, where it was last.
pub(super) fn drops(followed: &Followed, now: &Drops) -> BTreeMap<String, u64> {
    let Some(last) = last(followed) else { return BTreeMap::new() };
    let beginnings = match last.place.spot {
        Spot::Tx { to_switch: true } if !last.lost => vec!["switch.".to_owned()],
        _ if last.lost => vec![format!("{}.", last.place.nic_name())],
        _ => vec![format!("{}.", last.place.router)],
    };
    now.moved_since(&followed.before, &beginnings)
}

/// The whole story.
pub(super) fn tell(mut followed: Followed, now: &Drops) -> Packet {
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

fn fate(followed: &Followed, now: &Drops) -> Fate {
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
