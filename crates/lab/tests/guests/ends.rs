//! Guests that send, receive and run TCP, with virtio-net on every attachment.

use lab::experiment::{Attachment, Direction, Options, TrafficPattern};

use crate::room::{engines, figure, outcomes, ready};

#[test]
fn a_guest_sends_and_receives_by_a_tap() {
    let Some(_cpus) = ready(true) else { return };
    let Some((options, engine)) = engines().into_iter().next() else { return };
    for name in ["guest-tx", "guest-rx"] {
        let options = Options { attach: Attachment::Tap, ..options.clone() };
        let [(_, line)] = outcomes(name, &options).try_into().unwrap();
        assert_eq!(line.name, format!("{name}/{engine}/virtio-net/64/tap"));
    }
}

#[test]
fn large_packets_leave_and_arrive_as_one() {
    let Some(_cpus) = ready(true) else { return };
    for (options, engine) in engines() {
        let (attach, segment) = (Attachment::Tap, Some(1514));
        let options = Options { attach, frame: 65_535, segment, seconds: 0.5, ..options };
        for (name, frames, octets) in [
            ("guest-tx", "arrived.frames", "arrived.bytes"),
            ("guest-rx", "vcpu0.nic0.rx_frames", "vcpu0.nic0.rx_bytes"),
        ] {
            let [(outcome, line)] = outcomes(name, &options).try_into().unwrap();
            assert_eq!(line.name, format!("{name}/{engine}/virtio-net/65535-by-1514/tap"));
            // Each frame is a packet, except the kernel's own announcements.
            let ratio = line.median * 1e3 / figure(&line, "packets_kpps");
            assert!((0.99..1.01).contains(&ratio), "{line}");
            let count = |name: &str| outcome.ledger().get(name).unwrap();
            assert!(count(octets) > 60_000 * count(frames), "{line}");
        }
    }
}

#[test]
fn tcp_moves_octets_from_a_guest_to_the_host() {
    let Some(_cpus) = ready(true) else { return };
    let Some((options, engine)) = engines().into_iter().next() else { return };
    let (conversation, direction) = (Some(TrafficPattern::Stream), Some(Direction::Tx));
    let options = Options { conversation, direction, seconds: 0.1, ..options };
    let [(_, line)] = outcomes("tcp", &options).try_into().unwrap();
    assert_eq!(line.name, format!("tcp/{engine}/virtio-net/tap/stream-tx/1460"));
}

#[test]
fn two_guests_talk_by_the_switch_and_by_the_kernel() {
    let Some(_cpus) = ready(true) else { return };
    for (options, engine) in engines() {
        for (attach, by) in [(Attachment::Native, ""), (Attachment::Tap, "/tap")] {
            let options = Options { attach, ..options.clone() };
            let [(outcome, line)] = outcomes("guest-to-guest", &options).try_into().unwrap();
            assert_eq!(line.name, format!("guest-to-guest/{engine}/virtio-net/64{by}"));
            assert_eq!(figure(&line, "reordered"), 0.0, "{line}");
            assert!(outcome.ledger().get("guest.frames").unwrap() > 0);
        }
    }
}

#[test]
fn what_cannot_be_asked_of_guests_is_one_line() {
    let Some(_cpus) = ready(false) else { return };
    let direction = Some(Direction::Rx);
    let options = Options { conversation: Some(TrafficPattern::Requests), direction, ..Options::default() };
    let error = (lab::experiments::find("tcp").unwrap().cases)(&options).err().unwrap().to_string();
    assert!(error.contains("--direction tx") && !error.contains('\n'), "{error}");
    let large = Options { frame: 15_042, segment: Some(1514), ..Options::default() };
    let error = (lab::experiments::find("guest-rx").unwrap().cases)(&large).err().unwrap().to_string();
    assert!(error.contains("--attach tap") && !error.contains('\n'), "{error}");
}

#[test]
fn a_flooded_application_keeps_or_loses_its_rate() {
    let Some(_cpus) = ready(false) else { return };
    for (options, engine) in engines() {
        let [(outcome, bare), (_, protected)] = outcomes("livelock", &options).try_into().unwrap();
        for (line, how) in [(&bare, "unprotected"), (&protected, "protected")] {
            assert_eq!(line.name, format!("livelock/{engine}/virtio-net/64/work=2000/queue=256/{how}"));
            assert!(line.max <= 1.0 && figure(line, "best_kpps") > 0.0, "{line}");
        }
        let ledger = outcome.ledger();
        let get = |name: &str| ledger.get(&format!("application.{name}")).unwrap();
        assert_eq!(get("received"), get("queued") + get("drop_queue_full"));
    }
}

/// All attachments and traffic patterns.
mod all {
    use super::*;

    #[test]
    fn a_guest_sends_and_receives_by_every_attachment() {
        let Some(_cpus) = ready(true) else { return };
        for (options, engine) in engines() {
            for attach in Attachment::ALL {
                let by =
                    if attach == Attachment::Native { String::new() } else { format!("/{}", attach.name()) };
                for name in ["guest-tx", "guest-rx"] {
                    let options = Options { attach, ..options.clone() };
                    let [(_, line)] = outcomes(name, &options).try_into().unwrap();
                    assert_eq!(line.name, format!("{name}/{engine}/virtio-net/64{by}"));
                    if name == "guest-tx" {
                        assert_eq!((figure(&line, "lost"), figure(&line, "bad")), (0.0, 0.0), "{line}");
                    } else {
                        assert!(figure(&line, "sender_kpps") > 0.0, "{line}");
                    }
                }
            }
        }
    }

    #[test]
    fn tcp_moves_octets_both_ways_and_answers() {
        let Some(_cpus) = ready(true) else { return };
        for (options, engine) in engines() {
            let lines = outcomes("tcp", &Options { seconds: 0.1, ..options.clone() });
            let names: Vec<&str> = lines.iter().map(|(_, line)| line.name.as_str()).collect();
            let case = |rest: &str| format!("tcp/{engine}/virtio-net/tap/{rest}");
            assert_eq!(names, [case("stream-tx/1460"), case("stream-rx/1460"), case("requests")]);
            let units: Vec<&str> = lines.iter().map(|(_, line)| line.unit.as_str()).collect();
            assert_eq!(units, ["mbps", "mbps", "ktps"]);
            assert!(figure(&lines[2].1, "round_trip_us") > 0.0);
            for (attach, by) in [(Attachment::Switch, "switch"), (Attachment::Tap, "tap")] {
                let conversation = Some(TrafficPattern::Stream);
                let options =
                    Options { attach, conversation, seconds: 0.1, write: 16_384, ..options.clone() };
                let [(_, line)] = outcomes("tcp-guests", &options).try_into().unwrap();
                assert_eq!(line.name, format!("tcp-guests/{engine}/virtio-net/{by}/stream-tx/16384"));
            }
        }
    }
}
