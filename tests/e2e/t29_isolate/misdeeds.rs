//! Objective: a router in a process of its own that breaks rules is ended for it, and its neighbour goes on.

use super::*;

/// A router in a process of its own that commits this misdeed is ended for it; its neighbour continues.
fn misdeed(word: &str, net: u8) {
    let bad = format!("isolate = 'process'\nrole = 'hostile'\nmisdeed = '{word}'\nrestart = 'never'");
    let file = router("bad", net, &bad) + &router("near", net + 1, "");
    let mut stage = Stage::start(RINGROAD, &file).expect("it starts");
    let near = hosts(&mut stage, "near", net + 1);
    let beside = flow(&near, east(net + 1));
    beside.reaches(500, PATIENCE).expect("the neighbour forwards");
    let told = wait_until(&stage, "bad", |now| now["state"] == "failed");
    assert!(told["reason"].is_string(), "{told}");
    let sent = beside.so_far().received;
    beside.reaches(sent + 500, PATIENCE).expect("the neighbour goes on");
    undisturbed(&beside, word);
    assert_eq!(status(&stage, "near")["restarts"], 0);
    drop(beside);
    stage.finish_troubled(near.into_iter().collect()).expect("nothing is left");
}

mod all {
    use super::*;

    #[test]
    fn one_that_breaks_its_rings_costs_nobody_else_anything() {
        support::needs!(Root, Kvm);
        misdeed("descriptors", 7);
    }

    #[test]
    fn one_whose_indices_jump_costs_nobody_else_anything() {
        support::needs!(Root, Kvm);
        misdeed("indices", 9);
    }

    #[test]
    fn one_that_spins_costs_nobody_else_anything() {
        support::needs!(Root, Kvm);
        misdeed("spin", 11);
    }
}
