//! VLANs beside a control plane.

use super::*;

/// Returns true if the kernel makes VLANs.
fn has_vlans() -> bool {
    let host = Namespace::add("t45-vlans").expect("a namespace");
    host.ip(&["link", "add", "wan", "type", "veth", "peer", "name", "peer"]).expect("a link");
    host.ip(&["link", "add", "link", "wan", "name", "guests", "type", "vlan", "id", "7"]).is_ok()
}

#[test]
fn a_vlan_that_the_kernel_lacks_is_one_line() {
    needs!(Root, Tun, Program("ip"));
    let text = "[[router]]\nname = \"t45-v1\"\nengine = \"process\"\ncontrol = {}\n\
        [[router.nic]]\nname = \"wan\"\nattach = \"null\"\naddress = \"192.0.2.1/24\"\n\
        [[router.interface]]\nname = \"guests\"\nnic = \"wan\"\nvlan = 7\naddress = \"10.45.7.1/24\"\n";
    if has_vlans() {
        let stage = Stage::start(RINGROAD, text).expect("it starts");
        wait_for("the VLAN in the control namespace", || {
            let words = ["exec", "t45-v1", "--", "ip", "address", "show", "guests"];
            let done = run(Command::new(RINGROAD).args(words), PATIENCE).expect("it ends");
            done.stdout.contains("10.45.7.1/24").then_some(())
        });
        stage.finish(Vec::new()).expect("nothing is left");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("vlan.toml");
    fs::write(&path, text).expect("written");
    let done = run(Command::new(RINGROAD).arg("run").arg(&path), PATIENCE).expect("it ends");
    let lines = done.stderr.lines().filter(|line| line.contains("no VLANs (802.1Q)"));
    assert!(!done.status.success() && lines.count() == 1, "{}", done.stderr);
}
