use super::*;

/// Frame of a flow with this number.
fn frame(settings: &Settings, flow: u32, sequence: u32) -> Vec<u8> {
    let mut octets = first_frames(settings, settings.flows as usize).unwrap().swap_remove(flow as usize);
    octets[tag::SEQUENCE..tag::SEQUENCE + 4].copy_from_slice(&sequence.to_be_bytes());
    octets
}

#[test]
fn the_order_of_each_flow_is_watched_by_itself() {
    let settings = Settings { flows: 2, ..Settings::default() };
    let watch = Watch::new(2);
    for (flow, sequence) in [(0, 0), (1, 0), (0, 1), (1, 2), (1, 1), (0, 2)] {
        let mut octets = frame(&settings, flow, sequence);
        watch.deliver(&[Frame::new(Bytes::from_slice(&mut octets))]);
    }
    // An ARP frame is none of the generator's.
    let mut arp = [0; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    watch.deliver(&[Frame::new(Bytes::from_slice(&mut arp))]);
    let loaded = Loaded { offered: 8, seconds: 1.0, flows: watch.take() };
    assert_eq!(loaded.flows.iter().map(|flow| flow.frames).collect::<Vec<_>>(), [3, 3]);
    assert_eq!((loaded.reordered(|_| true), loaded.reordered(|flow| flow == 0)), (1, 0));
    assert!((loaded.lost() - 0.25).abs() < 1e-9);
    assert_eq!(watch.take(), [Arrived::default(); 2], "what was taken is forgotten");
}

#[test]
fn flows_are_in_places_that_the_group_has() {
    let options = Options { flows: 1000, ..Options::default() };
    for (kind, most) in [(Kind::Parallel, 8), (Kind::Multistage, steer::BUCKETS)] {
        let plan = plan(kind, FEW, &options).unwrap();
        let mut places = places(&plan, &settings(&plan, &options).unwrap()).unwrap();
        assert_eq!(places.len(), 1000);
        places.sort_unstable();
        places.dedup();
        assert!(places.last().is_some_and(|last| *last < most));
        // Flows are spread over nearly all of them.
        assert!(places.len() * 10 >= most * 9, "{} of {most}", places.len());
    }
}

#[test]
fn members_come_and_go_in_plans_without_processes() {
    for change in [Change::Added, Change::Removed] {
        let (from, to) = change.members();
        let before = plan(Kind::Parallel, from, &Options::default()).unwrap();
        let after = before.with_members("core", to).unwrap();
        assert_eq!((after.routers.len(), after.isolated().count()), (to as usize, 0));
    }
}

#[test]
fn a_load_lasts_until_the_change_is_made_which_is_to_happen_under_it() {
    let second = Duration::from_secs(1);
    assert!(!is_over(second / 2, second, true), "it has its length");
    assert!(!is_over(second * 3, second, false), "the change goes on");
    assert!(is_over(second, second, true) && is_over(second * 3, second, true));
    assert!(is_over(LONGEST, second, false), "a change that never ends");
}
