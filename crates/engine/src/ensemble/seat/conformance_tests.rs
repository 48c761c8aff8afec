//! What stands between a member and the links of its group, in the conformance suite that every port passes: none of the suite's
//! frames is heard or taken out.

use conformance::{check_sink_before, check_source_behind};
use port::Null;
use switch::{Config, Switch};

use super::*;
use crate::supplies::HostServices;

const FILE: &str = "[switch.west]\n[switch.east]\n[[group]]\nname = 'core'\nkind = 'parallel'\nmembers = 2\n\
                    [[group.nic]]\nname = 'w'\nattach = 'switch:west'\naddress = '192.0.2.1/24'\n\
                    [[group.nic]]\nname = 'e'\nattach = 'switch:east'\naddress = '198.51.100.1/24'\n";

/// A group that nobody looks after, and its first member.
fn member() -> (Arc<Core>, Arc<Member>) {
    let plan = config::parse(FILE, "f.toml").expect("a good file");
    let switch = |switch: &config::Switch| Arc::new(Switch::new(&switch.name, Config::default()));
    let switches: Vec<_> = plan.switches.iter().map(switch).collect();
    let (group, mut supplies) = (&plan.groups[0], HostServices::default());
    let core = Ensemble::core(group, (&switches, &mut supplies, None)).expect("it can be had");
    let member = core.add_member(group, ("core_0", 0)).expect("a member");
    (core, member)
}

#[test]
fn what_comes_to_a_member_is_a_source() {
    let (core, _member) = member();
    check_source_behind(|source| {
        Box::new(Inbound { source, out: Arc::new(Null::new()), core: core.clone(), nic: 0 })
    });
}

#[test]
fn what_takes_frames_of_a_member_is_a_sink() {
    let (core, member) = member();
    let ear = Ear { core, member, nic: 0 };
    check_sink_before(|sink| Arc::new(Outbound { sink, ear: ear.clone() }));
    assert!(ear.member.passed() > 0, "what passes is noted");
}
