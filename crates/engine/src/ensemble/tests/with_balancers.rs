//! Groups with balancers in the switch in front of their members.

use super::*;

#[test]
fn behind_a_balancer_members_have_buckets() {
    for spread in ["flow", "round-robin"] {
        let bench = multistage(spread);
        let (first, second) = (bench.member(0), bench.member(1));
        bench.becomes(&["serving, 128 of 256 buckets", "serving, 128 of 256 buckets"]);
        bench.send_64_flows();
        let end = Instant::now() + PATIENCE;
        let came = |member: &str| bench.counted(&format!("{member}.w.balancer.out_frames"));
        while came("core_0") + came("core_1") < 64 {
            assert!(Instant::now() < end, "{} and {}", came("core_0"), came("core_1"));
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(came("core_0") > 10 && came("core_1") > 10, "{} and {}", came("core_0"), came("core_1"));
        let in_turn = if spread == "flow" { 0 } else { 64 };
        assert_eq!(bench.counted("core.w.balancer.out_in_turn"), in_turn);
        drop(second);
        let end = Instant::now() + PATIENCE;
        while bench.state(0) != "serving, 256 of 256 buckets" {
            assert!(Instant::now() < end, "{}", bench.state(0));
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(first);
    }
}

#[test]
fn frames_are_spread_in_another_way_while_members_serve() {
    let bench = multistage("flow");
    let members = (bench.member(0), bench.member(1));
    bench.becomes(&["serving, 128 of 256 buckets", "serving, 128 of 256 buckets"]);
    bench.ensemble.core.spread_by(config::Spread::RoundRobin);
    bench.send_64_flows();
    let end = Instant::now() + PATIENCE;
    while bench.counted("core.w.balancer.out_in_turn") < 64 {
        assert!(Instant::now() < end, "{}", bench.counted("core.w.balancer.out_frames"));
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(members);
}

#[test]
fn a_link_is_opened_again_after_its_first_member_could_not_be_served() {
    let stages = "kind = 'multistage'\nbackends = 2\n";
    let bench = bench_of(&FILE.replace("kind = 'parallel'\nmembers = 2\n", stages));
    let Way::Balanced(stage) = &bench.ensemble.core.links[0].way else { panic!("no balancer is before it") };
    assert!(stage.balancer.add(0, "core_0", Arc::new(port::Null::new())), "its place is free");
    let wanted = bench.group.wanted(&bench.group.pattern.nics[0]);
    let queues = NicQueues::foreign(1).expect("descriptors");
    let site = ServiceContext { wanted: &wanted, threads: 1, queues: &queues, entry: &|_, sink| sink };
    assert!(bench.seats(0)[0].ports(&site).is_err(), "its place is taken");
    stage.balancer.remove(0);
    let members = (bench.member(0), bench.member(1));
    let end = Instant::now() + PATIENCE;
    while bench.counted("core/lb0.frames") < 64 {
        assert!(Instant::now() < end, "nothing comes from the link");
        bench.send_64_flows();
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(members);
}

#[test]
fn the_links_of_a_balancer_that_is_cut_go_to_the_other_one() {
    let stages = "kind = 'multistage'\nbackends = 2\nbalancers = 2\n";
    let bench = bench_of(&FILE.replace("kind = 'parallel'\nmembers = 2\n", stages));
    let members = (bench.member(0), bench.member(1));
    bench.becomes(&["serving, 128 of 256 buckets", "serving, 128 of 256 buckets"]);
    let by = |number: usize| bench.counted(&format!("core/lb{number}.frames"));
    let arrive = |number: usize| {
        let (before, end) = (by(number), Instant::now() + PATIENCE);
        // What comes to a balancer that sleeps wakes it, and it gives the link away then.
        while by(number) < before + 64 {
            assert!(Instant::now() < end, "{} and {}", by(0), by(1));
            bench.send_64_flows();
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    arrive(0);
    assert_eq!(by(1), 0, "it has the other switch");
    let core = &bench.ensemble.core;
    core.balancers.cut(0);
    arrive(1);
    assert!(core.counters.links_moved.get() > 0);
    drop(members);
}

#[test]
fn links_follow_the_number_of_balancers() {
    let stages = "kind = 'multistage'\nbackends = 2\nbalancers = 2\n";
    let of = |stages: &str| bench_of(&FILE.replace("kind = 'parallel'\nmembers = 2\n", stages));
    let (bench, one) = (of(stages), of(&stages.replace("cers = 2", "cers = 1")));
    let members = (bench.member(0), bench.member(1));
    bench.becomes(&["serving, 128 of 256 buckets", "serving, 128 of 256 buckets"]);
    let core = &bench.ensemble.core;
    let moved = || core.counters.links_moved.get();
    let moves_to = |number: u64| {
        let end = Instant::now() + PATIENCE;
        while moved() < number {
            assert!(Instant::now() < end, "{}", moved());
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    assert_eq!(moved(), 0);
    core.follow(&one.group);
    moves_to(1);
    core.follow(&bench.group);
    moves_to(2);
    assert!(bench.ensemble.is_of(&one.group), "it is the same group");
    assert!(may_become((&bench.group, &one.group), &plan(FILE)).is_ok());
    let told = may_become((&one.group, &bench.group), &plan(FILE)).expect_err("more than it began with");
    assert!(told.to_string().contains("it has 1 balancers while the run lasts, too few for 2"), "{told}");
    drop(members);
}
