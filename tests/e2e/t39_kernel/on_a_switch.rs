//! A kernel router on a switch of the run, with a firmware router beside it.

use super::*;

/// A firmware router with the route back.
const FIRMWARE: &str = "[switch.lan]\n\
    [[router]]\nname = \"t39p\"\nengine = \"process\"\n\
    [[router.nic]]\nname = \"lan\"\nattach = \"switch:lan\"\naddress = \"10.39.1.2/24\"\n\
    [[router.route]]\nto = \"192.0.2.0/24\"\nvia = \"10.39.1.1\"\n";

fn both() -> String {
    let west = format!("t39-west-{}", std::process::id());
    format!(
        "{FIRMWARE}[[router]]\nname = \"t39\"\nengine = \"kernel\"\n\
         [[router.nic]]\nname = \"west\"\nattach = \"veth:t39w\"\nnetns = \"{west}\"\naddress = \"192.0.2.1/24\"\n\
         [[router.nic]]\nname = \"lan\"\nattach = \"switch:lan\"\naddress = \"10.39.1.1/24\"\n"
    )
}

#[test]
fn frames_pass_between_the_kernel_and_a_firmware() {
    support::needs!(Root, Tun, Program("ip"), Program("busybox"), Program("nsenter"));
    let hosts = |_: &Namespace| Ok(host("t39-west"));
    let started = Stage::start_with_names_after(RINGROAD, &both(), &["--json"], hosts);
    let (stage, west) = started.expect("it starts");
    wait_for(|| stage.client().ok());
    let pings = || {
        settle(&west, "t39w", "192.0.2");
        ping(west.command("busybox"), 3, &["10.39.1.2"]).expect("answers");
    };
    pings();
    assert!(!stage.home().has_link("t39.lan"), "its interface is the router's");
    let counters = stage.wait_for_counters(|counters| counters.get("t39.lan.tap.read.frames") >= 3);
    let counters = counters.expect("it counts");
    assert!(counters.get("t39.lan.tap.write.frames") >= 3, "{counters:?}");
    assert!(counters.get("t39.lan.rx.frames") >= 3, "the kernel counts the same: {counters:?}");

    said(&["stop", "t39"]);
    assert!(stage.home().has_link("t39.lan"), "it comes home as long as its router is stopped");
    said(&["start", "t39"]);
    pings();

    let delete = ["-n", "t39", "link", "delete", "lan"];
    let done = run(Command::new("ip").args(delete), PATIENCE).expect("it ends");
    assert!(done.status.success(), "{}", done.stderr);
    // Each ping is one packet, which is lost without an interface: wait for the new TAP, and for the router to have it.
    let is_whole = |events: &[String]| {
        ["NIC t39.lan: its link is there again", "its deleted interfaces were created again"]
            .iter()
            .all(|wanted| events.iter().any(|line| line.contains(wanted)))
    };
    wait_for(|| is_whole(&events(&stage)).then_some(()));
    ping(west.command("busybox"), 3, &["10.39.1.2"]).expect("it is made again");

    let path = stage.path("next.toml");
    let apply = |text: &str| {
        std::fs::write(&path, text).expect("written");
        said(&["apply", &path.display().to_string()])
    };
    apply(FIRMWARE);
    wait_for(|| (!stage.home().has_link("t39.lan")).then_some(()));
    apply(&both());
    pings();
    // A process router takes over the name and the port of a kernel router.
    apply(&FIRMWARE.replace("t39p", "t39"));
    apply(&both());
    pings();
    stage.finish_troubled(vec![west]).expect("nothing is left");
}
