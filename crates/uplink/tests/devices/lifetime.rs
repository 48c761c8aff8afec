//! Nothing is left behind when the process is killed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use uplink::{Links, Netns, Tap, TapConfig};

use crate::support::{devices, wait_for};

/// Environment variable of the process that this test starts and kills.
const VICTIM: &str = "RINGROAD_TEST_VICTIM";
const THIS_TEST: &str = "lifetime::sigkill_takes_programs_and_devices_away";

#[test]
fn sigkill_takes_programs_and_devices_away() {
    if std::env::var_os(VICTIM).is_some() {
        be_the_victim();
        return;
    }
    if !devices() {
        return;
    }
    let mut victim = start_victim();
    let output = victim.stdout.take().expect("piped");
    let mut lines = BufReader::new(output);
    let program = program_of(&mut lines);
    let held = Netns::open(format!("/proc/{program}/ns/net")).expect("the program runs");
    let links = held.run(Links::here).expect("enter").expect("links");
    assert!(links.exists("doomed").expect("ask"));

    victim.kill().expect("it is our child");
    victim.wait().expect("it is our child");
    // It would not end by itself.
    wait_for("the end of the program", || !Path::new(&format!("/proc/{program}/ns/net")).exists());
    wait_for("the end of the device", || !links.exists("doomed").expect("ask"));
}

fn start_victim() -> Child {
    Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", THIS_TEST, "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("this test starts again")
}

/// Finds the process ID printed by the victim in the output of the test harness.
fn program_of(lines: &mut impl BufRead) -> u32 {
    for line in lines.lines() {
        let line = line.expect("read");
        if let Some(id) = line.split("program=").nth(1) {
            return id.trim().parse().expect("a process id");
        }
    }
    panic!("the victim ended too early");
}

fn be_the_victim() {
    let netns = Netns::new().expect("namespace");
    let config = TapConfig { netns: Some(&netns), ..TapConfig::default() };
    let _tap = Tap::open("doomed", &config).expect("TAP");
    let mut program = netns.command("sleep").arg("infinity").spawn().expect("program");
    println!("program={}", program.id());
    let _ = program.wait();
}
