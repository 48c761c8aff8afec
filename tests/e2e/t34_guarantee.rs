//! Objective: a guaranteed packet rate becomes the weight of a control group, which follows `set` while frames pass; a rate beyond
//! the capacity of a CPU is refused with the calculation, before the start and while running; and learned packet costs are known
//! to the next run.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Flow, Stage, Traces, needs, run};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Socket of the telemetry.
const METRICS: &str = "/run/ringroad/t34.prom";
/// Datagrams a second: far below the guaranteed rate.
const RATE: u32 = 1000;
/// Datagrams a second while costs are learned.
const HEAVY: u32 = 100_000;
/// Number of datagrams that suffices for that.
const ENOUGH: u64 = 100_000;
/// Processes that compete for CPU 0: so many that a router keeps up with the load on no host.
const OTHERS: usize = 8;

/// Two routers on one CPU, one of which has a guarantee.
fn file(guarantee: &str) -> String {
    let pin = "pin = { vcpu = \"0\", vhost = \"0\" }";
    format!(
        "[telemetry]\nprometheus = \"unix:{METRICS}\"\n[[router]]\nname = \"t34\"\n{pin}\nguarantee = \"{guarantee}\"\n\
         [[router.nic]]\nname = \"left\"\nattach = \"tap:t34-l\"\naddress = \"192.0.2.1/24\"\nqueue_len = 8000\n\
         [[router.nic]]\nname = \"right\"\nattach = \"tap:t34-r\"\naddress = \"198.51.100.1/24\"\nqueue_len = 8000\n\
         [[router]]\nname = \"b34\"\n{pin}\n\
         [[router.nic]]\nname = \"left\"\nattach = \"null\"\naddress = \"203.0.113.1/24\"\n"
    )
}

/// Path of a router's control group, if there is one.
fn group(router: &str) -> Option<PathBuf> {
    fn find(folder: &Path, end: &str, depth: u32) -> Option<PathBuf> {
        let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
        entries.into_iter().filter(|path| path.is_dir() && !path.is_symlink()).find_map(|path| {
            let is_it = path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(end));
            let has_weight = ["cpu.shares", "cpu.weight"].iter().any(|file| path.join(file).exists());
            if is_it && has_weight {
                return Some(path);
            }
            if depth > 0 { find(&path, end, depth - 1) } else { None }
        })
    }
    find(Path::new("/sys/fs/cgroup"), &format!("ringroad-t34.{router}"), 5)
}

/// Weight of the group, in hundredths of an ordinary thread's.
fn weight(router: &str) -> Option<u64> {
    let group = group(router)?;
    let read = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    read("cpu.shares").map(|shares| shares * 100 / 1024).or_else(|| read("cpu.weight"))
}

/// Waits until the weight of a router is as wanted.
#[track_caller]
fn weighs(router: &str, wanted: impl Fn(Option<u64>) -> bool) {
    let end = Instant::now() + PATIENCE;
    loop {
        let now = weight(router);
        if wanted(now) {
            return;
        }
        assert!(Instant::now() < end, "{router}: {now:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn ask(words: &[&str]) -> support::Finished {
    run(Command::new(RINGROAD).args(words), PATIENCE).expect("it ends")
}

/// Keeps CPU 0 busy until dropped, so that frames queue for their router and make large batches. Each of its processes has a
/// session of its own: the kernel may give those of one session a common share of CPU time (sched_autogroup_enabled).
struct Busy(Vec<Child>);

impl Busy {
    fn start() -> Self {
        let words = ["taskset", "--cpu-list", "0", "busybox", "sh", "-c", "while :; do :; done"];
        let start = |_| Command::new("setsid").args(words).spawn().expect("it starts");
        Self((0..OTHERS).map(start).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}

/// Runs `check` or `run` of a file with this guarantee, with the costs remembered in this folder.
fn judged(verb: &str, guarantee: &str, state: &Path) -> support::Finished {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file.toml");
    fs::write(&path, file(guarantee)).expect("a file");
    let mut command = Command::new(RINGROAD);
    command.arg(verb).arg(path).env("STATE_DIRECTORY", state);
    run(&mut command, PATIENCE).expect("it ends")
}

/// Extracts the rate that a refusal says would fit: `217 kpps would fit`.
fn would_fit(refusal: &str) -> u64 {
    let words: Vec<&str> = refusal.split_once(" would fit").expect("a rate that fits").0.split(' ').collect();
    let [.., number, unit] = words.as_slice() else { panic!("{refusal}") };
    let times = if *unit == "Mpps" { 1e6 } else { 1e3 };
    (number.parse::<f64>().expect("a number") * times) as u64
}

/// Doubles the learned packet costs.
fn make_twice_as_dear(state: &Path) {
    let path = state.join("costs.json");
    let text = fs::read_to_string(&path).expect("it was written");
    let mut document: Value = serde_json::from_str(&text).expect("it is JSON");
    for cost in document["costs"].as_array_mut().expect("points") {
        cost["cycles"] = (cost["cycles"].as_f64().expect("a number") * 2.0).into();
    }
    fs::write(&path, document.to_string()).expect("written");
}

/// Waits until `top` and the metrics report the guarantee, and that it is kept.
fn looks_kept(promised: u64) {
    let end = Instant::now() + PATIENCE;
    loop {
        let done = ask(&["top", "t34", "--once", "--json"]);
        let second = done.stdout.lines().next().and_then(|line| serde_json::from_str::<Value>(line).ok());
        let promise = second.map(|second| second["guarantees"]["t34"].clone()).unwrap_or_default();
        let told = promise["promised_pps"].as_u64().unwrap_or(0);
        // A second in which the host was busy otherwise proves nothing.
        let is_whole = told.abs_diff(promised) <= promised / 50;
        if promise["kept"] == true && is_whole && promise["delivered_pps"].as_u64() > Some(0) {
            break;
        }
        assert!(Instant::now() < end, "{promised} are promised: {done:?}");
    }
    let table = ask(&["top", "t34", "--once"]).stdout;
    assert!(table.lines().any(|line| line.starts_with("t34: guarantee ")), "{table}");
    let mut metrics = UnixStream::connect(METRICS).expect("it listens");
    metrics.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is asked");
    let mut page = String::new();
    metrics.read_to_string(&mut page).expect("text");
    for name in ["promised", "offered", "delivered", "kept_seconds", "broken_seconds"] {
        let sample = format!("ringroad_guarantee_{name}_total{{router=\"t34\"}} ");
        assert!(page.contains(&sample), "{sample} is not in {page}");
    }
}

/// Returns true if this host has control groups with weights.
fn has_groups() -> bool {
    let v2 = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers");
    Path::new("/sys/fs/cgroup/cpu").is_dir()
        || v2.is_ok_and(|known| known.split_whitespace().any(|known| known == "cpu"))
}

mod alone {
    use super::*;

    #[test]
    fn a_promised_rate_is_a_weight_that_follows_it() {
        needs!(Root, Tun, Program("ip"), Program("busybox"), Program("nsenter"));
        if !has_groups() {
            println!("SKIPPED: no control groups with the controller cpu");
            return;
        }
        let options = ["--json", "--name", "t34"];
        let mut stage = Stage::start_with_groups(RINGROAD, &file("20kpps"), &options).expect("it starts");
        let left = stage.host("t34-l", "192.0.2.2/24", "192.0.2.1").expect("left");
        let right = stage.host("t34-r", "198.51.100.2/24", "198.51.100.1").expect("right");
        // No packet has arrived: the cost is the estimate. A small share of the CPU weighs no less than without a guarantee.
        let least = 100;
        for router in ["t34", "b34"] {
            weighs(router, |weight| weight == Some(least));
        }
        let most = would_fit(&ask(&["set", "t34", "guarantee=50Mpps"]).stderr);
        assert!(ask(&["set", "t34", &format!("guarantee={}pps", most * 9 / 10)]).status.success());
        weighs("t34", |weight| weight > Some(2 * least));

        support::ping(left.command("busybox"), 3, &["198.51.100.2"]).expect("answers");
        let flow = Flow::start(&left, &right, "198.51.100.2:7034".parse().expect("an address"), RATE)
            .expect("a flow");
        flow.reaches(500, PATIENCE).expect("it flows");
        let shown = ask(&["show", "t34"]).stdout;
        assert!(shown.contains(" of 60 octets") && shown.contains("guarantee is"), "{shown}");
        looks_kept(most * 9 / 10);
        // More than a CPU can do: nothing changes.
        let done = ask(&["set", "t34", "guarantee=50Mpps"]);
        let said = &done.stderr;
        assert!(
            !done.status.success() && said.contains("50 Mpps x ") && said.contains(" would fit"),
            "{said}"
        );
        // A limit below the guarantee is refused; and a guarantee for larger frames keeps its frame size.
        let done = ask(&["set", "t34", "limit=1pps"]);
        let why = "router t34: limit: 1pps is less than guarantee = ";
        assert!(!done.status.success() && done.stderr.contains(why), "{}", done.stderr);
        for setting in ["guarantee=3kpps", "guarantee.frame=1514", "guarantee=2kpps"] {
            let done = ask(&["set", "t34", setting]);
            assert!(done.status.success(), "{setting}: {}", done.stderr);
        }
        let shown = ask(&["show", "t34"]).stdout;
        assert!(shown.contains("guarantee = 2kpps of 1514 octets"), "{shown}");
        weighs("t34", |weight| weight.is_some_and(|now| now >= least));
        assert!(ask(&["set", "t34", "guarantee=none"]).status.success());
        weighs("t34", |weight| weight.is_none());
        let tally = flow.stop().expect("it ends");
        assert_eq!(tally.lost(), 0, "{tally:?}");
        let counters = stage.finish(vec![left, right]).expect("nothing is left");
        assert_eq!(counters.faults("t34"), [""; 0]);
    }

    #[test]
    fn what_a_cpu_cannot_do_is_refused_with_the_arithmetic() {
        needs!(Root, Tun);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("much.toml");
        let before = Traces::now();
        for (text, why) in [
            (file("50Mpps"), "much.toml:6: router.guarantee: 50 Mpps x "),
            (
                file("1kpps")
                    .replace("pin = { vcpu = \"0\", vhost = \"0\" }", "affinity = { vcpu = \"free\" }"),
                "write pin for both classes",
            ),
            (
                file("1kpps").replace("guarantee", "sched = { policy = \"fifo\", priority = 1 }\nguarantee"),
                "remove one of the two",
            ),
        ] {
            fs::write(&path, text).expect("a file");
            for verb in ["check", "run"] {
                let mut command = Command::new(RINGROAD);
                command.arg(verb).arg(&path).env("STATE_DIRECTORY", folder.path().join("state"));
                let done = run(&mut command, PATIENCE).expect("it ends");
                assert!(!done.status.success() && done.stderr.contains(why), "{verb}: {}", done.stderr);
            }
        }
        assert_eq!(Traces::left(&before, PATIENCE), [""; 0]);
    }

    mod all {
        use super::*;

        #[test]
        fn what_packets_cost_is_remembered_by_the_next_run() {
            needs!(Root, Tun, Program("ip"), Program("nsenter"), Program("setsid"), Program("taskset"));
            if !has_groups() {
                println!("SKIPPED: no control groups with the controller cpu");
                return;
            }
            let (nothing, state) =
                (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
            let (nothing, state) = (nothing.path(), state.path());
            let guess = judged("check", "50Mpps", state);
            assert!(
                guess.stderr.contains("(an estimate: fewer than 10000 packets were seen)"),
                "{}",
                guess.stderr
            );
            assert!(
                guess.stderr.contains("start with that, send all that it takes for some seconds"),
                "{}",
                guess.stderr
            );
            assert!(guess.stderr.contains("then `ringroad set t34 guarantee=50Mpps`"), "{}", guess.stderr);

            let options = ["--json", "--name", "t34"];
            let start = |text: &str, options: &[&str]| {
                let mut stage = Stage::start_with_state(RINGROAD, text, options, state).expect("it starts");
                let left = stage.host("t34-l", "192.0.2.2/24", "192.0.2.1").expect("left");
                let right = stage.host("t34-r", "198.51.100.2/24", "198.51.100.1").expect("right");
                (stage, left, right)
            };
            let (stage, left, right) = start(&file("20kpps"), &options);
            let to = "198.51.100.2:7034".parse().expect("an address");
            let flow = Flow::start(&left, &right, to, HEAVY).expect("a flow");
            let busy = Busy::start();
            flow.reaches(ENOUGH, PATIENCE).expect("it flows");
            flow.stop().expect("it ends");
            drop(busy);
            // On a host that is busy anyway, it may have reported meanwhile that the guarantee was not kept.
            stage.finish_troubled(vec![left, right]).expect("nothing is left");

            let sight = judged("check", "50Mpps", state);
            assert!(!sight.status.success() && !sight.stderr.contains("an estimate"), "{}", sight.stderr);
            let plan = judged("check", "20kpps", state);
            assert!(
                plan.stdout.contains(" cycles each (measured here on 20"),
                "{}{}",
                plan.stdout,
                plan.stderr
            );
            // A guarantee between the rates that fit by the estimate and by the remembered costs: the latter decide. The learned
            // costs may equal the estimate, so the file now has twice the costs.
            make_twice_as_dear(state);
            let sight = judged("check", "50Mpps", state);
            let (guessed, seen) = (would_fit(&guess.stderr), would_fit(&sight.stderr));
            let between = format!("{}pps", guessed.midpoint(seen));
            println!("{guessed} pps fit by the estimate, {seen} by what is remembered");
            let (admits, refuses) = if seen > guessed { (state, nothing) } else { (nothing, state) };
            assert!(judged("check", &between, admits).status.success(), "{between}");
            for verb in ["check", "run"] {
                let refused = judged(verb, &between, refuses);
                let is_refused = !refused.status.success() && refused.stderr.contains("router.guarantee: ");
                assert!(is_refused, "{verb}: {}", refused.stderr);
            }

            let rate = if seen > guessed { between } else { format!("{}pps", seen / 2) };
            let (mut stage, left, right) = start(&file(&rate), &["--json", "--log", "text", "--name", "t34"]);
            let is_told =
                |line: &str| line.contains("guarantee t34: ") && line.contains("(measured here on 20");
            stage.run().wait_for_line(PATIENCE, is_told).expect("it says by what the promise was judged");
            stage.finish_troubled(vec![left, right]).expect("nothing is left");

            // Whatever the file contains, a run works.
            fs::write(state.join("costs.json"), "{").expect("written");
            let (stage, left, right) = start(&file("20kpps"), &options);
            let done = stage.finish_troubled(vec![left, right]).expect("nothing is left");
            let lines: Vec<&str> = done.stderr.lines().collect();
            assert!(matches!(lines[..], [line] if line.contains("costs.json: it is broken")), "{lines:?}");
        }
    }
}
