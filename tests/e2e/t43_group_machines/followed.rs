//! Objective: a back end on another host follows its group: what is applied here arrives there by `ringroad remote --follow` and
//! `ringroad apply --stream`, joined by a pipe, and frames take the new route; what is refused there changes nothing.

use support::{Finished, Running, Signal};

use super::elsewhere::{cable, start_there};
use super::*;

/// For a shell: the file for the other host, changed on the way, and what applies files there. That host is reached without ssh.
const WORDS: &str = r#"far=$1
file() { "$0" remote duo_63 "$@" | sed -u "s/^\[\[router]]\$/&\nengine = 'process'/"; }
there() { ip netns exec "$far" "$0" apply --stream --run far; }
"#;
const PIPE: &str = "file --follow | there";
/// Files of which the other host has to refuse the last one: one that is none, and one whose bridge is not there.
const REFUSED: &str = r#"{ printf '[[router]]\nname = 1\n# end of file\n'; file | sed 's/"udp:.*"/"bridge:t43v-none"/'; } | there"#;
/// A whole file, and a part of one that would change it.
const CUT: &str = r#"{ file; printf '[[router]]\nname = "other"\n'; } | there"#;
/// A gateway that has no host: where it is a static neighbour tells.
const GATEWAY: &str = "198.51.100.77";

/// A shell here that runs this.
fn shell(world: &World, far: &Namespace, script: &str) -> Command {
    let mut command = world.stage.home().command("sh");
    command.args(["-c", &format!("{WORDS}{script}"), RINGROAD, far.name()]);
    command
}

/// Has the other host refuse what such a command line gives it; returns what that says.
fn refused(world: &World, far: &Namespace, script: &str) -> Finished {
    let done = run(&mut shell(world, far, script), PATIENCE).expect("it ends");
    assert!(!done.status.success(), "{done:?}");
    done
}

/// Ethernet address of a host's link.
fn mac_of(host: &Namespace, link: &str) -> String {
    let shown = host.ip(&["-o", "link", "show", link]).expect("a link");
    let (_, rest) = shown.split_once("link/ether ").expect("an Ethernet address");
    rest.split_whitespace().next().expect("an Ethernet address").to_owned()
}

/// Applies a file here, which arrives on the other host when the pipe says this of its router.
fn apply(world: &World, text: &str, pipe: &mut Running, what: &str) {
    std::fs::write(world.stage.path(LATER_FILE), text).expect("written");
    world.ask(&["apply", LATER_FILE, "--run", "file"]);
    let line = pipe.wait_for_line(PATIENCE, |line| line.trim_start().starts_with(what));
    line.expect("it arrives there");
}

#[test]
fn a_back_end_on_another_host_follows_what_is_applied_here() {
    support::needs!(Root, Tun, Program("ip"), Program("busybox"), Program("sed"));
    let tunnels = "tunnels = 'udp:10.43.0.1:4843-10.43.0.2:4843'";
    let text = file("process", tunnels).replace("backends = 3", "backends = 1");
    let (stage, far) = Stage::start_after(RINGROAD, &text, &["--json"], cable).expect("it starts");
    let world = World::around(stage);
    world.east.ip(&["address", "add", &format!("{LATER}/32"), "dev", "t43v-east"]).expect("an address");
    let mut other = start_there(&world, &far);
    world.all_serve(2, 2);
    let mut pipe = Running::start(&mut shell(&world, &far, PIPE)).expect("it starts");
    pipe.wait_for_line(PATIENCE, |line| line == "run far is what the file says already")
        .expect("the first file");
    // From now on all frames pass the other host.
    let flows = world.flows();
    world.ask(&["stop", "duo_0"]);
    all_resume(&flows, "the back end here was stopped");
    let route = |via: &str| format!("{text}[[group.route]]\nto = '203.0.113.0/24'\nvia = '{via}'\n");
    apply(&world, &route("198.51.100.2"), &mut pipe, "router duo-63: route 203.0.113.0/24 via 198.51.100.2 ");
    let by_later = world.flows_to(LATER);
    all_resume(&by_later, "the route was applied");
    all_resume(&flows, "a route was applied");
    let mac = mac_of(&world.east, "t43v-east");
    let neighbour = format!("[[group.neighbour]]\naddress = '{GATEWAY}'\nmac = '{mac}'\n");
    // Firmware has its static neighbours from its start on.
    apply(&world, &(route(GATEWAY) + &neighbour), &mut pipe, "router duo-63 replaced ");
    all_resume(&by_later, "the route leads to another gateway");
    world.says(&["show", "duo-63", "--json"], &[GATEWAY, &mac]);
    let said = refused(&world, &far, REFUSED).stderr;
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("ringroad: a file is not applied: stdin:"), "{said}");
    assert!(
        lines[1].contains("t43v-none") && lines[2] == "ringroad: the last file was not applied",
        "{said}"
    );
    let said = refused(&world, &far, CUT);
    assert!(said.stdout.contains("run far is what the file says already"), "{said:?}");
    assert!(said.stderr.contains("the input ends within a file, which is not applied"), "{said:?}");
    all_resume(&by_later, "files were refused");
    drop((flows, by_later));
    world.ask(&["start", "duo_0"]);
    // All of the pipe ends with the run there, also the one at its beginning, which has nothing new to tell.
    other.signal(Signal::TERM).expect("told");
    other.wait(PATIENCE).expect("it ends");
    let done = pipe.wait(PATIENCE).expect("it ends");
    assert!(!done.status.success() && done.stderr.contains("ringroad: the run "), "{done:?}");
    world.stage.home().ip(&["link", "delete", "t43v-u"]).expect("deleted");
    drop(far);
    world.finish();
}
