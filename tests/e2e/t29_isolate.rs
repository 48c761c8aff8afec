//! Objective: a router whose machine is in a process of its own (`isolate = "process"`). Real stacks communicate through it by
//! TAPs; it is killed in traffic and comes back alone, while its neighbour loses nothing; the data plane is killed and finds it
//! again; it is stopped, started, shown and changed like any other router; one that breaks rules harms no other router.

mod memory;
mod misdeeds;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use support::{Flow, Namespace, Process, Stage, children_of, run, transfer};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
const PORT: u16 = 7029;

/// A router between two TAPs: `192.0.N.0/24` and `198.51.N.0/24`.
fn router(name: &str, net: u8, more: &str) -> String {
    format!(
        "[[router]]\nname = '{name}'\nengine = 'kvm'\n{more}\n\
         [[router.nic]]\nname = 'west'\nattach = 'tap:{name}-w'\naddress = '192.0.{net}.1/24'\nqueue_len = 4096\n\
         [[router.nic]]\nname = 'east'\nattach = 'tap:{name}-e'\naddress = '198.51.{net}.1/24'\n"
    )
}

fn hosts(stage: &mut Stage, name: &str, net: u8) -> [Namespace; 2] {
    [("w", "192.0"), ("e", "198.51")].map(|(side, begin)| {
        let (address, gateway) = (format!("{begin}.{net}.2/24"), format!("{begin}.{net}.1"));
        stage.host(&format!("{name}-{side}"), &address, &gateway).expect("a host")
    })
}

fn east(net: u8) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::new(198, 51, net, 2).into(), PORT)
}

fn ask(stage: &Stage, words: &[&str]) -> String {
    let done = run(stage.home().command(RINGROAD).current_dir(stage.path("")).args(words), PATIENCE);
    let done = done.expect("an answer");
    assert!(done.status.success(), "{words:?}: {}", done.stderr);
    done.stdout
}

fn status(stage: &Stage, router: &str) -> serde_json::Value {
    let told: serde_json::Value = serde_json::from_str(ask(stage, &["ps", "--json"]).trim()).expect("JSON");
    let routers = told["routers"].as_array().expect("routers");
    let mut own = routers.iter().find(|status| status["name"] == router).expect("it is told of").clone();
    own["data_plane"] = told["data_plane"].clone();
    own
}

fn wait_until(stage: &Stage, router: &str, wanted: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    let end = Instant::now() + PATIENCE;
    loop {
        let now = status(stage, router);
        if wanted(&now) {
            return now;
        }
        assert!(Instant::now() < end, "never as it should be: {now}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn number(status: &serde_json::Value, key: &str) -> u32 {
    u32::try_from(status[key].as_u64().expect("a number")).expect("small")
}

fn runs_apart(status: &serde_json::Value) -> bool {
    status["state"] == "running" && status["pid"].is_u64()
}

/// The process of a router that has one of its own: `ps` names it if the data plane answers in time.
fn process_of(stage: &Stage, router: &str) -> u32 {
    number(&wait_until(stage, router, runs_apart), "pid")
}

fn kill(pid: u32) {
    let done = run(std::process::Command::new("kill").args(["-9", &pid.to_string()]), PATIENCE);
    assert!(done.expect("kill runs").status.success());
}

#[test]
fn two_stacks_talk_through_a_process_of_its_own() {
    support::needs!(Root, Kvm);
    let mut stage = Stage::start(RINGROAD, &router("apart", 2, "isolate = 'process'")).expect("it starts");
    let [west, east_host] = hosts(&mut stage, "apart", 2);
    transfer(&west, &east_host, east(2), 2_000_000, PATIENCE);
    let told = wait_until(&stage, "apart", runs_apart);
    let (pid, plane) = (number(&told, "pid"), number(&told, "data_plane"));
    assert_ne!(pid, plane, "it has a process of its own");
    let children: Vec<u32> = children_of(stage.run().id()).iter().map(|child| child.id).collect();
    assert!(children.contains(&pid), "{children:?}");
    // Its privileges are those of the data plane: nothing beyond its class.
    let kernel = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    for line in ["CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(kernel.contains(line), "{line}: {kernel}");
    }
    let shown = ask(&stage, &["show", "apart"]);
    assert!(shown.contains("isolate = process") && shown.contains("tap:apart-w"), "{shown}");
    let threads = told["threads"].to_string();
    assert!(threads.contains("apart/vcpu0") && threads.contains("apart/vhost"), "{threads}");
    let counters = stage.finish(vec![west, east_host]).expect("nothing is left, and nothing was said");
    // The driver's and the device's side of the rings count the same frames.
    for (ours, own) in
        [("west.rx.frames", "vcpu0.west.rx_frames"), ("east.tx.frames", "vcpu0.east.tx_frames")]
    {
        let (ours, own) = (counters.get(&format!("apart.{ours}")), counters.get(&format!("apart.{own}")));
        assert!(ours == own && ours > 40, "{ours} {own}");
    }
}

#[test]
fn it_ends_with_its_supervisor() {
    support::needs!(Root, Kvm);
    let mut stage = Stage::start(RINGROAD, &router("apart", 22, "isolate = 'process'")).expect("it starts");
    let hosts = hosts(&mut stage, "apart", 22);
    let pid = process_of(&stage, "apart");
    kill(stage.run().id());
    goes(pid);
    drop(hosts);
}

/// Waits until this process is gone.
fn goes(pid: u32) {
    let end = Instant::now() + PATIENCE;
    while Process::look(pid).is_some() {
        assert!(Instant::now() < end, "process {pid} is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a flow through a router, from west to east.
fn flow(hosts: &[Namespace; 2], to: SocketAddr) -> Flow {
    Flow::start(&hosts[0], &hosts[1], to, RATE).expect("a flow")
}

/// Datagrams a second of each flow.
const RATE: u32 = 500;

fn descriptors(pid: u32) -> usize {
    Process::look(pid).expect("it runs").descriptors().expect("they can be counted")
}

/// Number of descriptors of a process that does not open or close any for half a second.
fn steady_descriptors(pid: u32) -> usize {
    let (mut count, mut same) = (descriptors(pid), 0);
    let end = Instant::now() + PATIENCE;
    while same < 20 {
        assert!(Instant::now() < end, "descriptors come and go: {count}");
        std::thread::sleep(Duration::from_millis(25));
        let now = descriptors(pid);
        (count, same) = (now, if now == count { same + 1 } else { 0 });
    }
    count
}

/// Checks that at least 97 % of the datagrams sent so far have arrived.
fn undisturbed(flow: &Flow, what: &str) {
    let sent = flow.so_far().sent;
    // Datagrams arrive in order.
    flow.resumes(PATIENCE).expect("it flows");
    let tally = flow.so_far();
    assert!(tally.received * 100 >= sent * 97 && sent > 0, "{what}: {sent} sent before {tally:?}");
}

#[test]
fn it_dies_alone_and_comes_back() {
    support::needs!(Root, Kvm);
    let file = router("apart", 3, "isolate = 'process'") + &router("near", 4, "");
    let mut stage = Stage::start(RINGROAD, &file).expect("it starts");
    let (apart, near) = (hosts(&mut stage, "apart", 3), hosts(&mut stage, "near", 4));
    let through = flow(&apart, east(3));
    let beside = flow(&near, east(4));
    through.reaches(500, PATIENCE).expect("it forwards");
    beside.reaches(500, PATIENCE).expect("it forwards");
    let first = status(&stage, "apart");
    let plane = number(&first, "data_plane");
    let mut held = None;
    for times in 1..=3 {
        let pid = process_of(&stage, "apart");
        kill(pid);
        wait_until(&stage, "apart", |now| now["state"] == "running" && now["restarts"] == times);
        through.resumes(PATIENCE).expect("traffic resumes");
        assert_eq!(number(&status(&stage, "near"), "data_plane"), plane, "nobody else has died");
        // Descriptors of the process that died may be closed only after the next one forwards.
        let most = *held.get_or_insert_with(|| steady_descriptors(plane));
        let end = Instant::now() + PATIENCE;
        while descriptors(plane) > most {
            assert!(Instant::now() < end, "descriptors are left: {most} {}", descriptors(plane));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    undisturbed(&beside, "the neighbour of one that was killed");
    assert_eq!(status(&stage, "near")["restarts"], 0);

    // Next the data plane is killed: the router itself continues, and is found again.
    let pid = process_of(&stage, "apart");
    kill(plane);
    let after = wait_until(&stage, "apart", |now| {
        now["state"] == "running" && now["data_plane"].is_u64() && number(now, "data_plane") != plane
    });
    assert_eq!(number(&after, "pid"), pid, "it was not started again");
    through.resumes(PATIENCE).expect("traffic resumes");
    beside.resumes(PATIENCE).expect("traffic resumes");
    drop((through, beside));
    let done = stage.finish_troubled(apart.into_iter().chain(near).collect()).expect("nothing is left");
    let killed = done.stderr.lines().filter(|line| line.contains("/apart: failed: its process (pid "));
    assert_eq!(killed.count(), 3, "{}", done.stderr);
    assert!(done.stderr.contains("data plane died"), "{}", done.stderr);
}

/// The data plane, where packets are traced, has no routes of it.
#[test]
fn a_trace_names_the_route_and_the_gateway_that_its_process_has() {
    support::needs!(Root, Kvm);
    let route = "[[router.route]]\nto = '203.0.113.0/24'\nvia = '198.51.26.2'\n";
    let file = router("apart", 26, "isolate = 'process'") + route;
    let mut stage = Stage::start(RINGROAD, &file).expect("it starts");
    let hosts = hosts(&mut stage, "apart", 26);
    let far = Ipv4Addr::new(203, 0, 113, 2);
    hosts[1].ip(&["address", "add", &format!("{far}/32"), "dev", "apart-e"]).expect("an address");
    let through = flow(&hosts, SocketAddr::new(far.into(), PORT));
    through.reaches(1, PATIENCE).expect("it forwards");
    let port = PORT.to_string();
    let told =
        ask(&stage, &["trace", "apart.west", "--count", "1", "--seconds", "50", "--json", "--port", &port]);
    let first = told.lines().next().expect("a packet");
    let left = serde_json::from_str::<serde_json::Value>(first).expect("JSON")["fate"]["left"].clone();
    assert!(left["route"] == "203.0.113.0/24" && left["via"] == "198.51.26.2", "{told}");
    drop(through);
    stage.finish_troubled(hosts.into()).expect("nothing is left");
}

/// Number of datagrams that arrive while some hundred more are sent.
fn arrivals(flow: &Flow) -> u64 {
    flow.arrive_while_sending(300, PATIENCE).expect("it sends")
}

mod all {
    use super::*;

    #[test]
    fn several_queues_and_a_switch_between_two_of_them() {
        support::needs!(Root, Kvm);
        let one = |name: &str, side: u8, lan: u8, to: u8| {
            format!(
                "[[router]]\nname = '{name}'\nengine = 'kvm'\nisolate = 'process'\nvcpus = 2\nvhost = 'per-queue'\n\
                 [[router.nic]]\nname = 'out'\nattach = 'tap:{name}-o'\naddress = '192.0.{side}.1/24'\nqueues = 2\n\
                 [[router.nic]]\nname = 'lan'\nattach = 'switch:lan'\naddress = '10.29.0.{lan}/24'\nqueues = 2\n\
                 [[router.route]]\nto = '192.0.{to}.0/24'\nvia = '10.29.0.{}'\n",
                3 - lan
            )
        };
        let file = format!("[switch.lan]\n{}{}", one("a", 20, 1, 21), one("b", 21, 2, 20));
        let mut stage = Stage::start(RINGROAD, &file).expect("it starts");
        let west = stage.host("a-o", "192.0.20.2/24", "192.0.20.1").expect("a host");
        let east = stage.host("b-o", "192.0.21.2/24", "192.0.21.1").expect("a host");
        for port in PORT..PORT + 3 {
            let there = SocketAddr::new(Ipv4Addr::new(192, 0, 21, 2).into(), port);
            transfer(&west, &east, there, 1_000_000, PATIENCE);
            let back = SocketAddr::new(Ipv4Addr::new(192, 0, 20, 2).into(), port);
            transfer(&east, &west, back, 1_000_000, PATIENCE);
        }
        let counters = stage.finish(vec![west, east]).expect("nothing is left, and nothing was said");
        let drops = counters.sum(|name| name.split('.').any(|word| word.starts_with("drop_bad_ring")));
        assert_eq!(drops, 0);
        assert!(counters.get("a.vcpu0.forwarded") + counters.get("a.vcpu1.forwarded") > 100);
    }

    #[test]
    fn it_is_stopped_changed_and_taken_away_like_any_other() {
        support::needs!(Root, Kvm);
        let file = router("apart", 5, "isolate = 'process'") + &router("near", 6, "");
        let mut stage = Stage::start(RINGROAD, &file).expect("it starts");
        let (apart, near) = (hosts(&mut stage, "apart", 5), hosts(&mut stage, "near", 6));
        let beside = flow(&near, east(6));
        let through = flow(&apart, east(5));
        through.reaches(100, PATIENCE).expect("it forwards");
        assert!(ask(&stage, &["stop", "apart"]).contains("is stopped"));
        wait_until(&stage, "apart", |now| now["state"] == "stopped");
        assert!(ask(&stage, &["start", "apart"]).contains("runs"));
        through.resumes(PATIENCE).expect("traffic resumes");
        assert!(ask(&stage, &["restart", "apart"]).contains("started anew"));
        through.resumes(PATIENCE).expect("traffic resumes");
        ask(&stage, &["set", "apart", "pin.vhost=0"]);
        ask(&stage, &["set", "apart", "restart=always"]);
        // A setting that differs from the file would be undone by `apply`, so it is set back.
        for word in ["spin=20us", "spin=50us"] {
            ask(&stage, &["set", "apart", word]);
        }
        drop(through);

        // A new route reaches it while it runs.
        let route = "[[router.route]]\nto = '203.0.113.0/24'\nvia = '198.51.5.2'\n";
        let routed = router("apart", 5, "isolate = 'process'") + route + &router("near", 6, "");
        apart[1].ip(&["address", "add", "203.0.113.1/32", "dev", "apart-e"]).expect("an address");
        std::fs::write(stage.path("next.toml"), routed).expect("written");
        let pid = process_of(&stage, "apart");
        let told = ask(&stage, &["apply", "next.toml"]);
        assert!(
            told.contains("router apart: route 203.0.113.0/24 via 198.51.5.2 out of east added"),
            "{told}"
        );
        assert_eq!(process_of(&stage, "apart"), pid, "nothing was replaced");
        let to = SocketAddr::new(Ipv4Addr::new(203, 0, 113, 1).into(), PORT + 1);
        let through = flow(&apart, to);
        through.reaches(100, PATIENCE).expect("it goes by the new route");
        drop(through);

        // It gets another NIC, to which its process connects as to the others.
        let another = "[[router.nic]]\nname = 'dmz'\nattach = 'null'\naddress = '198.18.0.1/24'\n";
        let wider = router("apart", 5, "isolate = 'process'") + another + &router("near", 6, "");
        std::fs::write(stage.path("next.toml"), wider).expect("written");
        ask(&stage, &["apply", "next.toml"]);
        assert!(ask(&stage, &["show", "apart"]).contains("dmz null"));
        let through = flow(&apart, east(5));
        through.reaches(100, PATIENCE).expect("it forwards with one NIC more");
        drop(through);

        // Apply more memory, all of which its process may share.
        let larger = router("apart", 5, "isolate = 'process'\nmemory = '64M'") + &router("near", 6, "");
        std::fs::write(stage.path("next.toml"), larger).expect("written");
        ask(&stage, &["apply", "next.toml"]);
        let through = flow(&apart, east(5));
        through.reaches(100, PATIENCE).expect("it forwards with more memory");
        drop(through);
        let pid = process_of(&stage, "apart");

        // Its process ends, and the router becomes part of the data plane; then it is removed entirely.
        std::fs::write(stage.path("next.toml"), router("apart", 5, "") + &router("near", 6, ""))
            .expect("written");
        let told = ask(&stage, &["apply", "next.toml"]);
        assert!(told.contains("router apart: its process ends"), "{told}");
        let through = flow(&apart, east(5));
        through.reaches(100, PATIENCE).expect("it forwards from here");
        goes(pid);
        std::fs::write(stage.path("next.toml"), &file).expect("written");
        let told = ask(&stage, &["apply", "next.toml"]);
        assert!(told.contains("router apart: it gets a process of its own"), "{told}");
        through.resumes(PATIENCE).expect("it forwards from there again");
        let pid = process_of(&stage, "apart");
        let name = Process::look(pid).expect("it runs").name;
        assert_eq!(name, "apart/plane");
        drop(through);
        std::fs::write(stage.path("next.toml"), router("near", 6, "")).expect("written");
        ask(&stage, &["apply", "next.toml"]);
        assert!(!ask(&stage, &["ps"]).contains("apart"));
        undisturbed(&beside, "the neighbour of one that was changed");
        drop(beside);
        stage.finish_troubled(apart.into_iter().chain(near).collect()).expect("nothing is left");
    }

    #[test]
    fn it_stays_dead_where_its_file_says_so_until_somebody_starts_it() {
        support::needs!(Root, Kvm);
        let file = router("apart", 24, "isolate = 'process'\nrestart = 'never'");
        let mut stage = Stage::start(RINGROAD, &file).expect("it starts");
        let hosts = hosts(&mut stage, "apart", 24);
        let through = flow(&hosts, east(24));
        through.reaches(100, PATIENCE).expect("it forwards");
        kill(process_of(&stage, "apart"));
        let dead = wait_until(&stage, "apart", |now| now["state"] == "failed");
        assert!(dead["reason"].as_str().is_some_and(|why| why.contains("SIGKILL")), "{dead}");
        assert!(ask(&stage, &["start", "apart"]).contains("the process of router apart is started"));
        through.resumes(PATIENCE).expect("traffic resumes");
        drop(through);
        stage.finish_troubled(hosts.into_iter().collect()).expect("nothing is left");
    }

    #[test]
    fn a_cable_that_is_pulled_out_stays_out_until_it_is_plugged_in() {
        support::needs!(Root, Kvm);
        let mut stage =
            Stage::start(RINGROAD, &router("apart", 25, "isolate = 'process'")).expect("it starts");
        let hosts = hosts(&mut stage, "apart", 25);
        let through = flow(&hosts, east(25));
        through.reaches(100, PATIENCE).expect("it forwards");
        let is_out = |stage: &Stage| ask(stage, &["show", "apart"]).contains("link = down");
        assert!(!is_out(&stage));
        let told = ask(&stage, &["set", "apart.east", "link=down"]);
        assert!(told.contains("the link of east is down"), "{told}");
        // Datagrams in flight arrive; then no more.
        arrivals(&through);
        assert_eq!(arrivals(&through), 0);
        assert!(is_out(&stage));
        kill(process_of(&stage, "apart"));
        wait_until(&stage, "apart", |now| now["state"] == "running" && now["restarts"] == 1);
        assert_eq!(arrivals(&through), 0, "the next process has it plugged in");
        assert!(is_out(&stage));
        ask(&stage, &["set", "apart.east", "link=up"]);
        through.resumes(PATIENCE).expect("it forwards");
        ask(&stage, &["set", "apart.west", "link=down"]);
        arrivals(&through);
        assert_eq!(arrivals(&through), 0);
        ask(&stage, &["restart", "apart"]);
        assert_eq!(arrivals(&through), 0, "it is not plugged in by that");
        assert!(is_out(&stage));
        ask(&stage, &["set", "apart.west", "link=up"]);
        through.resumes(PATIENCE).expect("it forwards");
        assert!(!is_out(&stage));
        drop(through);
        let wrong = run(stage.home().command(RINGROAD).args(["set", "apart.none", "link=down"]), PATIENCE);
        let wrong = wrong.expect("an answer");
        assert!(
            !wrong.status.success() && wrong.stderr.contains("there is no NIC \"none\""),
            "{}",
            wrong.stderr
        );
        stage.finish_troubled(hosts.into_iter().collect()).expect("nothing is left");
    }
}
