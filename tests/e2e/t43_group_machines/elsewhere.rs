//! Objective: a back end on another host, which runs the file that `ringroad check FILE --remote MEMBER` prints, serves beside those here
//! and alone, reached by VXLAN between bridges or by tunnels.

use support::{Running, Signal};

use super::*;

/// A cable to another host, which is returned.
pub(super) fn cable(home: &Namespace) -> anyhow::Result<Namespace> {
    let far = Namespace::add("t43v-far")?;
    home.ip(&[
        "link",
        "add",
        "t43v-u",
        "mtu",
        "1600",
        "type",
        "veth",
        "peer",
        "name",
        "t43v-u",
        "netns",
        far.name(),
    ])?;
    for (host, own) in [(home, "10.43.0.1"), (&far, "10.43.0.2")] {
        host.set("net.ipv6.conf.default.disable_ipv6", "1")?;
        host.ip(&["address", "add", &format!("{own}/24"), "dev", "t43v-u"])?;
        host.ip(&["link", "set", "t43v-u", "mtu", "1600", "up"])?;
    }
    Ok(far)
}

/// What is between two hosts: a cable, and a VXLAN over it that joins a bridge on each. The far host.
fn two_hosts(home: &Namespace) -> anyhow::Result<Namespace> {
    let far = cable(home)?;
    for (host, own, other) in [(home, "10.43.0.1", "10.43.0.2"), (&far, "10.43.0.2", "10.43.0.1")] {
        let tunnel = ["id", "43", "local", own, "remote", other, "dstport", "4789", "dev", "t43v-u"];
        host.ip(&[&["link", "add", "t43v-x", "type", "vxlan"][..], &tunnel].concat())?;
        host.ip(&["link", "add", BRIDGE, "type", "bridge"])?;
        host.ip(&["link", "set", "t43v-x", "master", BRIDGE])?;
        host.ip(&["link", "set", "t43v-x", "up"])?;
        host.ip(&["link", "set", BRIDGE, "up"])?;
    }
    Ok(far)
}

/// Runs on the far host the file that the command prints for it.
pub(super) fn start_there(world: &World, far: &Namespace) -> Running {
    let printed = world.ask(&["check", "file.toml", "--remote", "duo_63"]);
    let far_file = printed.replacen("[[router]]", "[[router]]\nengine = 'process'", 1);
    std::fs::write(world.stage.path("far.toml"), far_file).expect("written");
    let mut command = far.command(RINGROAD);
    let state = world.stage.path("far-state");
    command.current_dir(world.stage.path("")).env("STATE_DIRECTORY", state).args(["run", "far.toml"]);
    Running::start(&mut command).expect("it starts")
}

/// Has a back end on the far host serve beside the only one here, then alone, and kills it: flows go on. `made`: links of the home
/// host that are gone before the run ends.
fn try_far_back_end((stage, far): (Stage, Namespace), made: &[&str]) {
    let world = World::around(stage);
    let mut other = start_there(&world, &far);
    world.all_serve(2, 2);
    is_one_router(&world);
    let flows = world.flows();
    world.transfers(1);
    // With the only one here stopped, all flows go by the other host.
    world.ask(&["stop", "duo_0"]);
    all_resume(&flows, "the back end here was stopped");
    world.transfers(2);
    world.ask(&["start", "duo_0"]);
    world.all_serve(2, 2);
    other.signal(Signal::KILL).expect("killed");
    other.wait(PATIENCE).expect("it ends");
    all_resume(&flows, "the other host's was killed");
    world.transfers(3);
    drop(flows);
    for link in made {
        world.stage.home().ip(&["link", "delete", link]).expect("deleted");
    }
    drop(far);
    world.finish();
}

mod all {
    use super::*;

    #[test]
    fn a_back_end_on_another_host_is_reached_by_vxlan() {
        support::needs!(Root, Tun, Program("ip"), Program("busybox"));
        let more = format!("interconnect = 'bridge:{BRIDGE}'\nremote = 1");
        let text = file("process", &more).replace("backends = 3", "backends = 1");
        let started = Stage::start_after(RINGROAD, &text, &["--json"], |home| Ok(two_hosts(home)));
        let (stage, far) = started.expect("it starts");
        let far = match far {
            Ok(far) => far,
            Err(why) => return println!("SKIPPED: no VXLAN here: {why:#}"),
        };
        try_far_back_end((stage, far), &[BRIDGE, "t43v-x", "t43v-u"]);
    }

    #[test]
    fn a_back_end_on_another_host_is_reached_by_tunnels() {
        support::needs!(Root, Tun, Program("ip"), Program("busybox"));
        let more = "tunnels = 'udp:10.43.0.1:4843-10.43.0.2:4843'";
        let text = file("process", more).replace("backends = 3", "backends = 1");
        let started = Stage::start_after(RINGROAD, &text, &["--json"], cable).expect("it starts");
        try_far_back_end(started, &["t43v-u"]);
    }
}
