//! Objective: NAPI threads do the receive work of a kernel router, with the CPUs, policy, weight and guarantee of its file, also after
//! `set`, a restart and the loss of an interface. Settings that are not possible are refused in one line. Nothing is left on the host,
//! not even after SIGKILL.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use support::{Finished, Namespace, Running, Scheduled, Signal, Stage, Traces, needs, run};

use crate::verbs::{refused, ringroad, said};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Nothing here takes so long, even on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

/// File of a router with these lines and two veth pairs, whose other ends are in the namespace of the run.
fn file(lines: &str) -> String {
    format!(
        "[[router]]\nname = \"t42\"\nengine = \"kernel\"\n{lines}\n\
         [[router.nic]]\nname = \"west\"\nattach = \"veth:t42w\"\naddress = \"192.0.2.1/24\"\n\
         [[router.nic]]\nname = \"east\"\nattach = \"veth:t42e\"\naddress = \"198.51.100.1/24\"\n"
    )
}

/// Runs `check` on a router with these lines and this attachment of its first NIC.
fn check(lines: &str, attach: &str) -> Finished {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t42.toml");
    fs::write(&path, file(lines).replace("veth:t42w", attach)).expect("written");
    ringroad(&["check", &path.display().to_string()])
}

/// Returns true if this process sees kernel threads, which a PID namespace hides.
fn sees_kernel() -> bool {
    fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd")
}

#[test]
fn what_threads_cannot_have_is_one_line() {
    needs!(Root, Program("ip"));
    for (lines, attach, line) in [
        ("guarantee = \"1kpps\"", "macvlan:lo", "has no NAPI thread of its own"),
        ("pin = { vcpu = \"0\" }", "veth:t42w", "router.pin.vcpu: a kernel router has no vCPU"),
        (
            "pin = { vhost = \"0\" }\nthreaded = false",
            "veth:t42w",
            "router.threaded: pin.vhost is about NAPI threads",
        ),
        ("pin = { vhost = \"1023\" }", "veth:t42w", "router.pin.vhost: CPU 1023 cannot be used on this host"),
    ] {
        let done = check(lines, attach);
        assert!(!done.status.success() && done.stderr.contains(line), "{line}: {}", done.stderr);
    }
    let done = check("pin = { vhost = \"0\" }", "veth:t42w");
    if sees_kernel() {
        assert!(
            done.stdout.contains("thread t42/west-napi0 on CPU 0 (pin)"),
            "{}{}",
            done.stdout,
            done.stderr
        );
    } else {
        let line =
            "router.pin.vhost: it applies to kernel threads, which the PID namespace of this process hides";
        assert!(!done.status.success() && done.stderr.contains(line), "{}", done.stderr);
    }
}

mod alone {
    use super::*;

    /// Returns true, and prints the reason, if these tests are not possible here.
    fn cannot_be() -> bool {
        let cannot = !sees_kernel();
        if cannot {
            println!("SKIPPED: a PID namespace hides kernel threads");
        }
        cannot
    }

    fn start(lines: &str) -> Stage {
        start_text(&file(lines))
    }

    /// Starts a run of this text, and waits until it can be asked: its interfaces exist by then.
    fn start_text(text: &str) -> Stage {
        let options = ["--json", "--name", "t42"];
        let stage = Stage::start_with_groups(RINGROAD, text, &options).expect("it starts");
        let end = Instant::now() + PATIENCE;
        while stage.client().is_err() {
            assert!(Instant::now() < end, "it does not come up");
            thread::sleep(Duration::from_millis(10));
        }
        stage
    }

    /// Returns the last CPU of this process's affinity mask.
    fn last_cpu() -> u32 {
        let cpus = rustix::thread::sched_getaffinity(None).expect("CPUs");
        (0..1024_u32).rev().find(|cpu| cpus.is_set(*cpu as usize)).expect("one at least")
    }

    /// Waits until both threads of the router are as `wanted`; returns their IDs by name.
    #[track_caller]
    fn are(wanted: impl Fn(&Scheduled) -> bool) -> BTreeMap<String, u32> {
        let end = Instant::now() + PATIENCE;
        loop {
            let threads = support::router_threads(RINGROAD, "t42").expect("an answer");
            let held: Vec<Option<Scheduled>> = threads.iter().map(|(tid, _)| Scheduled::read(*tid)).collect();
            if threads.len() == 2 && held.iter().flatten().filter(|held| wanted(held)).count() == 2 {
                return threads.into_iter().map(|(tid, name)| (name, tid)).collect();
            }
            assert!(Instant::now() < end, "{threads:?} {held:#?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the control group of a thread for the controller `cpu`.
    fn group(tid: u32) -> String {
        let text = fs::read_to_string(format!("/proc/{tid}/cgroup")).unwrap_or_default();
        let mut lines = text.lines().map(|line| line.splitn(3, ':').skip(1).collect::<Vec<_>>());
        let line = lines.find(|line| line[0].split(',').any(|name| name == "cpu") || line[0].is_empty());
        line.map_or_else(String::new, |line| line[1].to_owned())
    }

    #[test]
    fn threads_are_where_the_file_has_them_whatever_becomes_of_their_interfaces() {
        needs!(Root, Program("ip"), Program("chrt"), Program("nsenter"));
        if cannot_be() {
            return;
        }
        let cpu = last_cpu();
        let lines = format!("pin = {{ vhost = \"{cpu}\" }}\nsched = {{ policy = \"fifo\", priority = 20 }}");
        let stage = start(&lines);
        let is = |priority| {
            move |held: &Scheduled| {
                (held.policy.as_str(), held.priority) == ("SCHED_FIFO", priority)
                    && held.cpus == cpu.to_string()
            }
        };
        let first = are(is(20));
        assert_eq!(first.keys().collect::<Vec<_>>(), ["t42/east-napi0", "t42/west-napi0"]);
        said(&["set", "t42", "sched.priority=30"]);
        are(is(30));
        assert!(refused(&["set", "t42", "threaded=false"]).contains("pin.vhost is about NAPI threads"));
        assert!(refused(&["set", "t42", "pin.vcpu=0"]).contains("a kernel router has no vCPU"));
        said(&["restart", "t42"]);
        let restarted = are(is(30));
        let lost = run(Command::new("ip").args(["-n", "t42", "link", "delete", "west"]), PATIENCE);
        assert!(lost.expect("it ends").status.success());
        // The interface is created again, with another thread.
        let end = Instant::now() + PATIENCE;
        while are(is(30))["t42/west-napi0"] == restarted["t42/west-napi0"] {
            assert!(Instant::now() < end, "the thread of the deleted interface is still told");
        }
        said(&["set", "t42", "sched={ policy = \"other\" }"]);
        are(|held| held.policy == "SCHED_OTHER" && held.cpus == cpu.to_string());
        let top = said(&["top", "t42", "--once"]);
        assert!(top.contains("t42/west-napi0"), "{top}");
        stage.finish_troubled(vec![]).expect("nothing is left");
    }

    #[test]
    fn shares_are_those_of_a_group_that_goes_with_the_run() {
        needs!(Root, Program("ip"), Program("chrt"), Program("nsenter"));
        if cannot_be() {
            return;
        }
        let lines = format!("pin = {{ vhost = \"{}\" }}", last_cpu());
        let stage = start(&lines);
        let ordinary = |held: &Scheduled| held.policy == "SCHED_OTHER" && held.cpus == last_cpu().to_string();
        are(ordinary);
        let done = ringroad(&["set", "t42", "sched={ policy = \"shares\", weight = 2 }"]);
        if done.stderr.contains("group") {
            println!("SKIPPED: {}", done.stderr.trim());
            stage.finish_troubled(vec![]).expect("nothing is left");
            return;
        }
        assert!(done.status.success(), "{}", done.stderr);
        let end = Instant::now() + PATIENCE;
        let in_group = |tid: &u32| group(*tid).ends_with("ringroad-t42.t42");
        while !are(ordinary).values().all(in_group) {
            assert!(Instant::now() < end, "they are in no group");
        }
        let quota = refused(&["set", "t42", "sched.quota=0.5"]);
        assert!(quota.contains("quota"), "{quota}");
        stage.finish_troubled(vec![]).expect("nothing is left");
    }

    #[test]
    fn a_guarantee_weighs_and_says_how_it_is_kept() {
        needs!(Root, Program("ip"), Program("chrt"), Program("nsenter"));
        if cannot_be() {
            return;
        }
        let lines = format!("pin = {{ vhost = \"{}\" }}\nguarantee = \"1kpps\"", last_cpu());
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t42.toml");
        fs::write(&path, file(&lines)).expect("written");
        let checked = ringroad(&["check", &path.display().to_string()]);
        if checked.stderr.contains("group") {
            return println!("SKIPPED: {}", checked.stderr.trim());
        }
        assert!(checked.stdout.contains("guarantee t42: 1000 packets/s take"), "{}", checked.stdout);
        let stage = start(&lines);
        let end = Instant::now() + PATIENCE;
        while !are(|held| held.policy == "SCHED_OTHER")
            .values()
            .all(|tid| group(*tid).ends_with("ringroad-t42.t42"))
        {
            assert!(Instant::now() < end, "they are in no group");
        }
        // No frame arrives, which is less than the guaranteed rate.
        while !said(&["show", "t42"]).contains("less is asked for") {
            assert!(Instant::now() < end, "{}", said(&["show", "t42"]));
        }
        let much = refused(&["set", "t42", "guarantee=900Mpps"]);
        assert!(much.contains("cycles") && much.contains("at most 0.90 can be"), "{much}");
        said(&["set", "t42", "guarantee=none"]);
        stage.finish_troubled(vec![]).expect("nothing is left");
    }

    #[test]
    fn nothing_is_left_of_them_after_a_sigkill() {
        needs!(Root, Program("ip"), Program("chrt"), Program("nsenter"));
        if cannot_be() {
            return;
        }
        let before = Traces::now();
        let home = Namespace::add("t42-home").expect("a namespace");
        let folder = tempfile::tempdir().expect("a folder");
        let lines =
            format!("pin = {{ vhost = \"{}\" }}\nsched = {{ policy = \"rr\", priority = 3 }}", last_cpu());
        fs::write(folder.path().join("file.toml"), file(&lines)).expect("written");
        let mut command = home.command_with_groups(RINGROAD);
        command.current_dir(folder.path()).args(["run", "--log", "text", "file.toml"]);
        let mut run = Running::start(&mut command).expect("it starts");
        run.wait_for_line(PATIENCE, |line| line.contains("is up after")).expect("it comes up");
        are(|held| held.policy == "SCHED_RR");
        run.signal(Signal::KILL).expect("killed");
        run.wait(PATIENCE).expect("it ends");
        drop((home, folder));
        assert_eq!(Traces::left(&before, PATIENCE), [""; 0]);
    }

    mod all {
        use super::*;

        #[test]
        fn a_container_has_them_as_well() {
            needs!(Root, Program("ip"), Program("chrt"), Program("nsenter"), Program("lxc-start"));
            if cannot_be() {
                return;
            }
            let cpu = last_cpu();
            let lines =
                format!("pin = {{ vhost = \"{cpu}\" }}\nsched = {{ policy = \"fifo\", priority = 20 }}");
            let text = file(&lines).replace("\"kernel\"", "\"lxc\"");
            let stage = start_text(&text);
            are(|held| held.policy == "SCHED_FIFO" && held.cpus == cpu.to_string());
            // The other end of a pair may be moved later.
            let east = Namespace::add("t42-east").expect("a namespace");
            stage.home().ip(&["link", "set", "t42e", "netns", east.name()]).expect("moved");
            said(&["set", "t42", "rp_filter=strict"]);
            stage.finish_troubled(vec![east]).expect("nothing is left");
        }
    }
}
