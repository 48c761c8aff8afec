//! What stands before and behind a balancer that is a virtual machine, in the conformance suite that every port passes: none of the
//! suite's frames is an order, a probe or heard.

use std::time::Duration;

use conformance::{check_sink_before, check_source_behind};
use port::Null;
use switch::{Config, Switch};

use super::*;
use crate::supplies::HostServices;

const FILE: &str = "[switch.west]\n[switch.east]\n[[group]]\nname = 'core'\nkind = 'multistage'\nbalancer = 'vm'\n\
                    balancers = 2\nbackends = 2\nengine = 'process'\n\
                    [[group.nic]]\nname = 'w'\nattach = 'switch:west'\naddress = '192.0.2.1/24'\n\
                    [[group.nic]]\nname = 'e'\nattach = 'switch:east'\naddress = '198.51.100.1/24'\n";

/// A side of the first balancer of a group, which carries the group's first link.
fn side(is_inside: bool) -> Side {
    let plan = config::parse(FILE, "f.toml").expect("a good file");
    let switch = |switch: &config::Switch| Arc::new(Switch::new(&switch.name, Config::default()));
    let switches: Vec<_> = plan.switches.iter().map(switch).collect();
    let (group, mut supplies) = (&plan.groups[0], HostServices::default());
    let core = Ensemble::core(group, (&switches, &mut supplies, None)).expect("it can be had");
    let links = core.links.len();
    let machine = core.machines.as_ref().expect("balancers").find((&group.balancer(0), 0), 2 * links);
    let front = core.front(0).expect("a link").clone();
    front.carry(Some(0), true, Duration::ZERO);
    Side { core, machine, front, nic: 0, entered: if is_inside { 0 } else { links }, is_inside }
}

#[test]
fn what_comes_to_a_balancer_is_a_source() {
    let Side { core, .. } = side(false);
    check_source_behind(|source| {
        Box::new(FromNetwork { source, out: Arc::new(Null::new()), core: core.clone(), nic: 0 })
    });
    let side = side(true);
    check_source_behind(|source| Box::new(FromMembers { source, side: side.clone() }));
}

#[test]
fn what_takes_frames_of_a_balancer_is_a_sink() {
    for is_inside in [false, true] {
        let side = side(is_inside);
        check_sink_before(|sink| Arc::new(FromMachine { sink, side: side.clone() }));
        assert!(side.machine.passed() > 0, "what passes is noted");
    }
}
