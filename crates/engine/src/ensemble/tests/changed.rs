//! Groups of a changed plan: what is plugged in anew, and what is refused.

use super::*;

#[test]
fn members_of_a_changed_group_are_plugged_into_a_new_one() {
    let (first, other) = (plan(FILE), plan(&FILE.replace("192.0.2.1/", "192.0.2.9/")));
    let switch = |switch: &config::Switch| Arc::new(Switch::new(&switch.name, Config::default()));
    let switches: Vec<_> = first.switches.iter().map(switch).collect();
    let ensembles = Ensembles::new(CounterRegistry::default());
    let seat = |plan: &Plan| {
        ensembles.learn(plan);
        let router = &plan.routers[0];
        let seat = ensembles.seat((router, &router.nics[0]), &switches, &mut HostServices::default());
        seat.expect("it can be had").expect("it is a member's")
    };
    let four = first.with_members("core", 4).expect("so many may be");
    let held = (seat(&first), seat(&four));
    assert_eq!(ensembles.running().len(), 1, "members come and go");
    assert_eq!(ensembles.owners("core", 0), [None; 8], "nobody serves yet");
    assert!(ensembles.owners("core", 9).is_empty() && ensembles.owners("edge", 0).is_empty());
    let new = seat(&other);
    let began: Vec<Instant> = ensembles.running().iter().map(|ensemble| ensemble.core.began).collect();
    assert!(began.len() == 2 && began[0] == began[1], "both age neighbours of the same table");
    ensembles.watch("core_0", || false);
    let is_gone = |ensemble: &Arc<Ensemble>| ensemble.core.live()[&0].is_gone();
    let gone: Vec<bool> = ensembles.running().iter().map(is_gone).collect();
    assert_eq!(gone, [false, true], "its process is at the NICs of the new one");
    drop(held);
    assert_eq!(ensembles.running().len(), 1);
    drop(new);
    assert!(ensembles.running().is_empty());
}

#[test]
fn a_change_that_members_cannot_make_one_by_one_is_refused() {
    let ensembles = Ensembles::new(CounterRegistry::default());
    let before = plan(&FILE.replace("members = 2", "members = 2\nengine = 'process'"));
    let switch = |switch: &config::Switch| Arc::new(Switch::new(&switch.name, Config::default()));
    let switches: Vec<_> = before.switches.iter().map(switch).collect();
    ensembles.learn(&before);
    let router = &before.routers[0];
    let seat = ensembles.seat((router, &router.nics[0]), &switches, &mut HostServices::default());
    let told = |text: &str| {
        let mut plan = plan(text);
        plan.choose_engines(&config::HostFacts::default());
        ensembles.check(&plan).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(told(&FILE.replace("members = 2", "members = 3")), "");
    let other = FILE.replace("192.0.2.1/", "192.0.2.9/");
    assert_eq!(told(&other), "", "virtual machines are plugged in anew");
    let processes = other.replace("members = 2", "members = 2\nengine = 'process'");
    assert!(told(&processes).starts_with("group core: its NICs stay as long as it runs"));
    let stages = FILE.replace("kind = 'parallel'\nmembers", "kind = 'multistage'\nbackends");
    assert!(told(&stages).starts_with("group core: its kind stays"));
    let in_turn = FILE.replace("members = 2", "members = 2\nspread = 'round-robin'");
    assert!(told(&in_turn).starts_with("group core: its spread stays"));
    drop(seat);
}
