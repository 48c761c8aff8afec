//! Guests with an e1000, in every transmit mode.

use config::{Engine, Itr, NicModel, TransmitMode};
use lab::experiment::{Attachment, Options};
use lab::figures;
use lab::report::Verdict;

use crate::room::{engines, figure, outcomes, ready};

/// Transmit modes that an engine supports.
fn modes(engine: &str) -> impl Iterator<Item = TransmitMode> {
    let kvm = engine == Engine::Kvm.name();
    TransmitMode::ALL.into_iter().filter(move |mode| kvm || *mode != TransmitMode::Coalesced)
}

#[test]
fn frames_go_out_come_in_and_go_through_by_the_status_block() {
    let Some(_cpus) = ready(false) else { return };
    let Some((options, engine)) = engines().into_iter().next() else { return };
    let options = Options { nic: NicModel::E1000, mode: TransmitMode::Csb, ..options };
    for name in ["guest-tx", "guest-rx", "guest-to-guest", "forward"] {
        let [(_, line)] = outcomes(name, &options).try_into().unwrap();
        assert_eq!(line.name, format!("{name}/{engine}/e1000-csb/64"));
    }
}

#[test]
fn two_vcpus_share_the_work() {
    let Some(_cpus) = ready(false) else { return };
    let Some((options, engine)) = engines().into_iter().next() else { return };
    for mode in [TransmitMode::Base, TransmitMode::Csb] {
        for name in ["guest-tx", "guest-rx"] {
            let nic = NicModel::E1000;
            let options = Options { nic, mode, vcpus: 2, seconds: 0.1, ..options.clone() };
            let [(_, line)] = outcomes(name, &options).try_into().unwrap();
            assert_eq!(line.name, format!("{name}/{engine}/e1000-{}/64/vcpus=2", mode.name()));
        }
    }
}

/// All transmit modes, and measurements that depend on time.
mod all {
    use super::*;

    #[test]
    fn a_guest_sends_in_every_way_and_the_line_tells_what_it_cost() {
        let Some(_cpus) = ready(false) else { return };
        for (options, engine) in engines() {
            for mode in modes(engine) {
                // Frames are combined while an interrupt is delayed.
                let combines = mode == TransmitMode::SendCombining;
                let (itr, shown) =
                    if combines { (Itr::Every(4000), "+itr4000") } else { (Itr::Every(0), "") };
                let options = Options { nic: NicModel::E1000, mode, itr, seconds: 0.1, ..options.clone() };
                let [(_, line)] = outcomes("guest-tx", &options).try_into().unwrap();
                assert_eq!(line.name, format!("guest-tx/{engine}/e1000-{}{shown}/64", mode.name()));
                assert_eq!((figure(&line, "lost"), figure(&line, "bad")), (0.0, 0.0), "{line}");
                let writes = line.get("tdt_write_per_frame").map_or(0.0, |text| text.parse().unwrap());
                match mode {
                    TransmitMode::Base => assert!((0.9..=1.1).contains(&writes), "{line}"),
                    TransmitMode::SendCombining | TransmitMode::Csb => assert!(writes < 0.9, "{line}"),
                    TransmitMode::Async | TransmitMode::Coalesced => {}
                }
                let modelled = options.sends_in_access() && engine == Engine::Kvm.name();
                assert_eq!(line.get("model_kpps").is_some(), modelled, "{line}");
            }
        }
    }

    #[test]
    fn frames_come_in_and_go_through_in_every_way() {
        let Some(_cpus) = ready(false) else { return };
        for (options, engine) in engines() {
            for mode in modes(engine) {
                let options = Options { nic: NicModel::E1000, mode, seconds: 0.1, ..options.clone() };
                for name in ["guest-rx", "guest-to-guest", "forward"] {
                    let [(_, line)] = outcomes(name, &options).try_into().unwrap();
                    assert_eq!(line.name, format!("{name}/{engine}/e1000-{}/64", mode.name()));
                }
                let [(_, polling), (_, sleeping)] = outcomes("round-trip", &options).try_into().unwrap();
                for line in [polling, sleeping] {
                    assert_eq!(figure(&line, "lost"), 0.0, "{line}");
                    assert!(figure(&line, "ktps") > 0.0, "{line}");
                }
            }
        }
    }

    #[test]
    fn moderation_is_part_of_the_case_and_told() {
        let Some(_cpus) = ready(false) else { return };
        let Some((options, engine)) = engines().into_iter().next() else { return };
        let options = Options { nic: NicModel::E1000, itr: Itr::Every(4000), seconds: 0.1, ..options };
        let [_, (_, line)] = outcomes("round-trip", &options).try_into().unwrap();
        assert_eq!(line.name, format!("round-trip/{engine}/e1000-csb+itr4000/64/sleeping"));
        // Each interrupt comes a millisecond after the previous one, so no trip is much shorter.
        assert!(figure(&line, "spacing_in_periods") > 0.5, "{line}");
    }

    #[test]
    fn large_packets_are_cut_by_the_nic() {
        let Some(_cpus) = ready(false) else { return };
        for (options, engine) in engines() {
            let mode = TransmitMode::Base;
            let nic = NicModel::E1000;
            let options = Options { nic, mode, frame: 15_054, segment: Some(1514), seconds: 0.1, ..options };
            let [(_, line)] = outcomes("guest-tx", &options).try_into().unwrap();
            assert_eq!(line.name, format!("guest-tx/{engine}/e1000-base/15054-by-1514"));
            // 15,000 octets of payload in frames of 1460 octets each: eleven frames per packet.
            let frames = line.median * 1e3 / figure(&line, "packets_kpps");
            assert!((10.9..11.1).contains(&frames), "{line}");
            assert!(figure(&line, "tdt_write_per_frame") < 0.5, "{line}");
        }
    }

    #[test]
    fn large_packets_arrive_cut() {
        let Some(_cpus) = ready(true) else { return };
        for (options, engine) in engines() {
            let (nic, mode, attach) = (NicModel::E1000, TransmitMode::Base, Attachment::Tap);
            let options = Options { nic, mode, attach, frame: 15_042, segment: Some(1514), ..options };
            let options = Options { seconds: 0.1, ..options };
            let [(outcome, line)] = outcomes("guest-rx", &options).try_into().unwrap();
            assert_eq!(line.name, format!("guest-rx/{engine}/e1000-base/15042-by-1514/tap"));
            let frames = line.median * 1e3 / figure(&line, "packets_kpps");
            assert!((10.9..11.1).contains(&frames), "{line}");
            let count = |name: &str| outcome.ledger().get(name).unwrap();
            assert!(count("vcpu0.nic0.rx_bytes") <= 1514 * count("vcpu0.nic0.rx_frames"), "{line}");
        }
    }

    #[test]
    fn a_figure_is_played_and_its_shapes_are_judged() {
        let Some(_cpus) = ready(true) else { return };
        let Some((options, _)) = engines().into_iter().next() else { return };
        let options = Options { seconds: 0.05, repeat: 6, attach: Attachment::Native, ..options };
        for figure in figures::find("004/latency").unwrap() {
            let mut out = Vec::new();
            let played = figures::play(&figure, &options, &mut out).unwrap();
            let cells: Vec<_> = played.cells.iter().flatten().collect();
            let missing: Vec<&str> =
                cells.iter().filter(|cell| cell.summary().is_none()).map(|cell| cell.why()).collect();
            assert_eq!((cells.len(), missing), (10, Vec::new()));
            let text = figures::table(&figure, &played);
            assert!(text.contains("(17)") && text.contains("(60)"), "{text}");
            for shape in &figure.shapes {
                let (verdict, why) = figures::judge(&figure, shape, &played);
                let is_judged = ["ratio", " beside "].iter().any(|word| why.contains(word));
                assert!(verdict == Verdict::NotRun || is_judged, "{why}");
            }
            // Both cells of a row have the same case, which alternates with the other row's, and is reported
            // once.
            assert_eq!(String::from_utf8(out).unwrap().matches("RESULT name=round-trip/").count(), 2);
        }
    }
}
