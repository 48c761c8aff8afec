//! Random changes, one after the other, beside a router that none of them may disturb.

use std::time::Instant;

use config::Plan;
use engine::{HostServices, Instance, Plugs, State};

use crate::traffic::{Stream, alone, kvm, plan, router, set, start};

/// Number of changes.
const ROUNDS: u32 = 40;

/// Pseudo-random numbers, the same in each run (xorshift, G. Marsaglia).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn one_of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.roll(texts.len() as u64) as usize]
    }
}

/// A file: the router of the stream, and up to three others in some variant.
fn file(dice: &mut Dice) -> String {
    let switches =
        dice.one_of(&["[switch.lan]\n", "[switch.lan]\nageing = 9\n", "[switch.lan]\n[switch.dmz]\n"]);
    let mut text = switches.to_owned() + &router("one", 1, "");
    for (name, n) in [("two", 2), ("three", 3), ("four", 4)] {
        if dice.roll(4) == 0 {
            continue;
        }
        let more = dice.one_of(&[
            "",
            "",
            "restart = 'never'",
            "memory = '64M'",
            "vcpus = 2\nvhost = 'per-queue'",
            "vhost = 'split'\nspin = '0us'",
            "role = 'echo'",
            "pin = { vcpu = '0' }",
            "role = 'hostile'\nmisdeed = 'triple-fault'",
        ]);
        let attach = dice.one_of(&["null", "null", "switch:lan"]);
        text += &router(name, n, more).replacen("attach = 'null'", &format!("attach = '{attach}'"), 1);
        for to in 0..dice.roll(3) {
            let via = 2 + dice.roll(2);
            text += &format!("[[router.route]]\nto = '10.9{to}.0.0/16'\nvia = '10.{n}.1.{via}'\n");
        }
    }
    text
}

/// A disturbance between changes, as an operator might cause.
fn disturb(instance: &mut Instance, dice: &mut Dice) {
    let names: Vec<String> = instance.status().into_iter().skip(1).map(|status| status.name).collect();
    let Some(name) = names.get(dice.roll(names.len() as u64 + 1) as usize) else { return };
    match dice.roll(4) {
        0 => instance.stop_router(name).expect("it stops"),
        1 => drop(instance.restart_router(name)),
        2 => drop(set(instance, name, "spin", "1ms").expect("it is set")),
        _ => drop(instance.look_after(Instant::now())),
    }
}

fn names(plan: &Plan) -> Vec<&str> {
    plan.routers.iter().map(|router| router.name.as_str()).collect()
}

#[test]
fn any_changes_in_a_row() {
    if !kvm() {
        return;
    }
    let _turn = alone();
    let mut plugs = Plugs::new();
    let stream = Stream::through("one", 1, [10, 1, 1, 2], &mut plugs);
    let mut instance = start(&router("one", 1, ""), plugs);
    stream.flows(20);
    let threads = instance.status()[0].threads.clone();
    let mut dice = Dice(0x5eed);
    for round in 0..ROUNDS {
        let text = file(&mut dice);
        let wanted = plan(&text);
        let stopped: Vec<String> = instance
            .status()
            .into_iter()
            .filter_map(|status| (status.state == State::Stopped).then_some(status.name))
            .collect();
        let foretold = instance.changes_to(&wanted);
        let changes = instance.apply(&wanted, HostServices::default()).expect("it is applied");
        assert_eq!(changes, foretold, "round {round}");
        assert_eq!(instance.changes_to(&wanted), [], "round {round}: {text}");
        let status = instance.status();
        assert_eq!(
            status.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(),
            names(&wanted),
            "round {round}"
        );
        let switches: Vec<&str> = instance.switches().iter().map(|switch| switch.name()).collect();
        assert_eq!(switches, wanted.switches.iter().map(|s| s.name.as_str()).collect::<Vec<_>>());
        for router in &status {
            let stays = stopped.contains(&router.name) && router.state == State::Stopped;
            assert!(stays || router.state != State::Stopped, "round {round}: {router:?}");
        }
        for _ in 0..dice.roll(4) {
            disturb(&mut instance, &mut dice);
        }
        assert_eq!(status[0].threads, threads, "round {round}");
    }
    stream.flows(20);
    stream.ends_whole();
}
