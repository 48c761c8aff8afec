//! Groups that are changed while they run.

use std::time::Duration;

use proptest::prelude::*;

use super::{BESIDE, PARALLEL, good, multistage, names};
use crate::{CpuSet, Plan, Router, Spin};

#[test]
fn members_come_and_go() {
    let plan = good(&format!("{PARALLEL}{BESIDE}attach = \"null\"\n"));
    let stopped = plan.with("core_1", "state", "stopped").expect("it may be");
    let four = stopped.with_members("core", 4).expect("so many may be");
    assert_eq!(names(&four.routers), ["edge", "core_0", "core_1", "core_2", "core_3"]);
    let is_stopped: Vec<bool> = four.routers.iter().map(Router::is_stopped).collect();
    assert_eq!(is_stopped, [false, false, true, false, false]);
    assert_eq!(four.groups[0].members, 4);
    assert_eq!(stopped.with_members("core", 2), Ok(stopped.clone()));
    let refused = |members| plan.with_members("core", members).expect_err("refused").to_string();
    assert_eq!(refused(0), "group core: members: 0 is out of range; write 1 to 64");
    assert_eq!(refused(65), "group core: members: 65 is out of range; write 1 to 64");
    let unknown = plan.with_members("edge", 2).expect_err("refused").to_string();
    assert_eq!(unknown, "there is no group \"edge\"; groups: core");
    let scaled = good(&PARALLEL.replace("spread = \"flow\"", "scale = { min = 2, max = 3 }"));
    let what = scaled.with_members("core", 4).expect_err("refused").to_string();
    assert_eq!(what, "group core: members: 4 is out of range; write 2 to 3");
}

#[test]
fn the_youngest_members_are_parked() {
    let plan = good(&PARALLEL.replace("members = 2", "members = 3"));
    let parked = |plan: &Plan| plan.groups[0].parked_members();
    assert!(parked(&plan).is_empty());
    let one = plan.with_awake("core", 1).expect("it may be");
    assert_eq!((one.groups[0].members, one.groups[0].awake()), (3, 1));
    assert_eq!(parked(&one), 1..3);
    assert_eq!(one.routers, plan.routers, "all of them stay");
    assert_eq!(one.with_awake("core", 3), Ok(plan.clone()));
    let four = one.with_awake("core", 4).expect("one more is started");
    assert_eq!((four.groups[0].members, four.groups[0].parked), (4, 0));
    let fewer = one.with_members("core", 1).expect("it may be");
    assert_eq!((fewer.groups[0].members, fewer.groups[0].parked), (1, 0));
    let refused = |awake| plan.with_awake("core", awake).expect_err("refused").to_string();
    assert_eq!(refused(0), "group core: awake: 0 is out of range; write 1 or more");
    assert_eq!(refused(65), "group core: members: 65 is out of range; write 1 to 64");
    let unknown = plan.with_awake("edge", 2).expect_err("refused").to_string();
    assert_eq!(unknown, "there is no group \"edge\"; groups: core");
}

#[test]
fn spare_members_wake_for_others_and_are_followed_by_new_ones() {
    let file = |lines: &str| good(&PARALLEL.replace("members = 2", lines));
    // How many there are, how many are awake, and whether a spare one is missing.
    let told = |plan: &Plan| (plan.groups[0].members, plan.groups[0].awake(), plan.groups[0].lacks_spares());
    let plan = file("members = 2\nspare = 1");
    assert_eq!((told(&plan), plan.routers.len()), ((3, 2, false), 3));
    let used = plan.with_members("core", 3).expect("it may be");
    assert_eq!(told(&used), (3, 3, true));
    assert_eq!(used.routers, plan.routers, "nothing is started");
    let again = used.with_spare("core", 1).expect("it may be");
    assert_eq!(again, file("members = 3\nspare = 1"));
    assert_eq!(again.with_members("core", 3), Ok(again.clone()));
    assert_eq!(again.with_members("core", 2), Ok(plan.clone()));
    assert_eq!(told(&used.with_members("core", 1).expect("it may be")), (2, 1, false));
    assert_eq!(plan.with_spare("core", 0), Ok(file("members = 2\nspare = 0")));
    let asleep = plan.with_awake("core", 1).expect("it may be");
    assert_eq!(told(&asleep), (3, 1, false));
    assert_eq!(asleep.with_spare("core", 1), Ok(asleep.clone()), "more are parked than need be");
    assert_eq!(told(&asleep.with_spare("core", 0).expect("it may be")), (2, 1, false));
    assert_eq!(told(&asleep.with_spare("core", 4).expect("it may be")), (5, 1, false));
    let refused = |name, spare| plan.with_spare(name, spare).expect_err("refused").to_string();
    assert_eq!(refused("core", 5), "group core: spare: 5 is out of range; write 0 to 4");
    assert_eq!(refused("edge", 1), "there is no group \"edge\"; groups: core");
    assert_eq!(told(&file("members = 64\nspare = 4")), (64, 64, false), "there may be no more");
    let scaled = file("scale = { min = 1, max = 2 }");
    assert_eq!(told(&scaled), (2, 1, false));
    assert_eq!(told(&scaled.with_awake("core", 2).expect("it may be")), (2, 2, false));
    assert_eq!(told(&file("scale = { min = 1, max = 2, surplus = \"end\" }")), (1, 1, false));
}

#[test]
fn a_setting_of_a_group_is_one_of_its_members() {
    let plan = good(&format!("{PARALLEL}{BESIDE}attach = \"null\"\n"));
    let spun = plan.with("core", "spin", "70us").expect("it may be set");
    let is_set = |router: &&Router| router.spin == Spin::For(Duration::from_micros(70));
    assert_eq!(names(spun.routers.iter().filter(is_set)), ["core_0", "core_1"]);
    let third = spun.with_members("core", 3).expect("so many may be");
    assert!(third.routers.iter().find(|router| router.name == "core_2").is_some_and(|new| is_set(&new)));
    let refused = |key: &str, value| plan.with("core", key, value).expect_err("refused").to_string();
    assert_eq!(refused("limit", "1kpps"), "group core: limit: a group has none in this version");
    assert_eq!(
        refused("guarantee.rate", "1kpps"),
        "group core: guarantee.rate: a group has none in this version"
    );
    assert!(refused("spin", "soon").starts_with("router core: spin: \"soon\" is not a time"));
}

#[test]
fn no_part_of_a_group_has_a_rate() {
    let machines = good(&multistage("balancer = \"vm\"\n"));
    for (plan, part) in [(good(PARALLEL), "core_1"), (machines, "core_lb0")] {
        for (key, value) in [("limit", "1kpps"), ("guarantee", "1kpps"), ("guarantee.frame", "60")] {
            let refused = plan.with(part, key, value).expect_err("refused").to_string();
            let due = format!("router {part}: {key}: a part of a group has none in this version");
            assert_eq!(refused, due);
        }
        assert!(plan.with(part, "spin", "70us").is_ok(), "other settings may be set");
    }
}

#[test]
fn a_number_out_of_range_is_reported_under_the_key_of_the_file() {
    for (text, key) in [(PARALLEL.to_owned(), "members"), (multistage(""), "backends")] {
        let refused = good(&text).with_members("core", 65).expect_err("refused").to_string();
        assert_eq!(refused, format!("group core: {key}: 65 is out of range; write 1 to 64"));
    }
}

#[test]
fn cpus_are_dealt_out_over_members() {
    let pins = |plan: &Plan| -> Vec<String> {
        let pin = |router: &Router| router.pin.vcpu.as_ref().map(ToString::to_string).unwrap_or_default();
        plan.members("core").map(pin).collect()
    };
    let plan = good(&PARALLEL.replace("members = 2", "members = 3\npin = { vcpu = \"2,3\", vhost = \"4\" }"));
    assert_eq!(pins(&plan), ["2", "3", "2"]);
    assert!(
        plan.members("core").all(|router| router.pin.vhost.as_ref().is_some_and(|set| set.cpus() == [4]))
    );
    let wide = good(
        &PARALLEL
            .replace("members = 2", "members = 2\nvcpus = 2\nmemory = \"64M\"\npin = { vcpu = \"0-3\" }"),
    );
    assert_eq!(pins(&wide), ["0-1", "2-3"]);
    let moved = plan.with("core", "pin.vcpu", "5-7").expect("it may be set");
    assert_eq!(pins(&moved), ["5", "6", "7"]);
    let free = moved.with("core", "pin.vcpu", "any").expect("it may be set");
    assert_eq!(pins(&free), [""; 3]);
}

#[test]
fn a_setting_of_a_group_leaves_other_settings_of_single_members() {
    let core = PARALLEL.replace("members = 2", "members = 2\npin = { vcpu = \"2,3\", vhost = \"4\" }");
    let rim =
        core.replace("[switch.lan]\n", "").replace("core", "rim").replace("198.51.100.1/", "198.51.100.2/");
    let pins = |plan: &Plan, name: &str| {
        let router = plan.routers.iter().find(|router| router.name == name).expect("it is there");
        let text = |set: &Option<CpuSet>| set.as_ref().map(ToString::to_string).unwrap_or_default();
        (text(&router.pin.vcpu), text(&router.pin.vhost))
    };
    let own = |vcpu: &str, vhost: &str| (vcpu.to_owned(), vhost.to_owned());
    let mut plan = good(&format!("{core}{rim}"));
    for (router, key, value) in
        [("core_1", "pin.vcpu", "7"), ("rim_1", "pin.vhost", "6"), ("core", "spin", "70us")]
    {
        plan = plan.with(router, key, value).expect("it may be set");
    }
    assert_eq!((pins(&plan, "core_1"), pins(&plan, "rim_1")), (own("7", "4"), own("3", "6")));
    plan = plan.with("core", "pin.vhost", "5").expect("it may be set");
    assert_eq!((pins(&plan, "core_1"), pins(&plan, "rim_1")), (own("7", "5"), own("3", "6")));
    plan = plan.with("core", "pin.vcpu", "2,3").expect("it may be set");
    assert_eq!((pins(&plan, "core_1"), pins(&plan, "rim_1")), (own("3", "5"), own("3", "6")));
}

proptest! {
    #[test]
    fn however_members_come_and_go_the_plan_is_as_if_the_file_said_so(
        numbers in prop::collection::vec(1..12_u32, 1..6), stages in any::<bool>(),
    ) {
        let text = |members: u32| {
            let group = if stages { multistage("") } else { PARALLEL.to_owned() };
            let group = group.replace("members = 2", &format!("members = {members}"));
            format!("{}{BESIDE}attach = \"null\"\n", group.replace("backends = 3", &format!("backends = {members}")))
        };
        let mut plan = good(&text(5));
        for members in numbers {
            plan = plan.with_members("core", members).expect("so many may be");
            prop_assert_eq!(&plan, &good(&text(members)));
        }
    }
}

#[test]
fn a_file_that_is_applied_leaves_the_number_of_members_to_the_load_and_cables_as_they_are() {
    let text = PARALLEL.replace("members = 2\n", "scale = { min = 1, max = 4 }\n");
    let before = good(&text).with_awake("core", 4).and_then(|plan| plan.with_awake("core", 3));
    let before = before.and_then(|plan| plan.with("core", "wan.link", "down")).expect("it may be");
    let after = |text: &str| {
        let mut next = good(text);
        next.inherit(&before);
        next
    };
    let members = |plan: &Plan| (plan.groups[0].members, plan.groups[0].parked, plan.routers.len());
    let same = after(&text);
    assert_eq!(members(&same), (4, 1, 4));
    let is_pulled = |router: &Router| [router.nics[0].is_pulled(), router.nics[1].is_pulled()];
    assert!(same.routers.iter().chain([&same.groups[0].pattern]).all(|own| is_pulled(own) == [true, false]));
    assert_eq!(members(&after(&text.replace("max = 4", "max = 2"))), (2, 1, 2));
    assert_eq!(members(&after(&text.replace("min = 1", "min = 4"))), (4, 0, 4));
    assert_eq!(members(&after(&text.replace("max = 4", "max = 4, surplus = \"end\""))), (4, 0, 4));
    assert_eq!(members(&after(PARALLEL)), (2, 0, 2), "the file says how many");
}

#[test]
fn a_member_that_a_file_adds_is_stopped_like_its_group() {
    let before = good(PARALLEL).with("core", "state", "stopped").expect("it may be");
    let before = before.with("core", "wan.link", "down").expect("it may be");
    let mut next = good(&PARALLEL.replace("members = 2", "members = 3"));
    next.inherit(&before);
    let stopped = next.routers.iter().filter(|router| router.is_stopped());
    assert_eq!(names(stopped), ["core_0", "core_1", "core_2"]);
    assert!(next.routers.iter().all(|router| router.nics[0].is_pulled() && !router.nics[1].is_pulled()));
}
