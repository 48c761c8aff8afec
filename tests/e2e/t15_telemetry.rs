//! Objective: a run exports its counters as Prometheus text where its file says so, and nowhere else; a client that
//! sends bad requests, is slow or asks too often disturbs neither the frames nor other readers.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::{Namespace, Process, Signal, Stage};

const PATIENCE: Duration = Duration::from_secs(60);
const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// Address in the run's own namespace, where no other program can use it.
const PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9477);

fn file(telemetry: &str) -> String {
    format!(
        "{telemetry}\n\
         [[router]]\nname = \"edge\"\n\
         [[router.nic]]\nname = \"wan\"\nattach = \"tap:t15-wan\"\naddress = \"192.0.2.1/24\"\n\
         [[router.nic]]\nname = \"lan\"\nattach = \"null\"\naddress = \"198.51.100.1/24\"\nmodel = \"e1000\"\n"
    )
}

fn start(telemetry: &str) -> (Stage, Namespace) {
    let mut stage = Stage::start(env!("CARGO_BIN_EXE_ringroad"), &file(telemetry)).expect("it starts");
    let host = stage.host("t15-wan", "192.0.2.2/24", "192.0.2.1").expect("a host");
    ping(&host, 3);
    (stage, host)
}

/// Sends this many pings, which the router must answer.
fn ping(host: &Namespace, count: usize) {
    support::ping(host.command("busybox"), count, &["192.0.2.1"]).expect("answers");
}

/// Sends a request and reads to the end; returns header and body.
fn ask(mut stream: impl Read + Write, request: &[u8]) -> (String, String) {
    stream.write_all(request).expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer and its end");
    let (head, body) = answer.split_once("\r\n\r\n").expect("header and body");
    (head.to_owned(), body.to_owned())
}

fn connect(stage: &Stage) -> TcpStream {
    let stream = stage.home().inside(|| TcpStream::connect_timeout(&PORT, PATIENCE)).expect("inside");
    let stream = stream.expect("somebody listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    stream
}

/// Returns the samples of a page, by series.
fn samples(page: &str) -> BTreeMap<&str, f64> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.rsplit_once(' ').expect("a value"))
        .map(|(s, v)| (s, v.parse().expect("a number")))
        .collect()
}

#[test]
fn counters_are_handed_out_at_a_port() {
    support::needs!(Root, Kvm, Tun, Program("busybox"));
    let (mut stage, host) = start("[telemetry]\nprometheus = \"127.0.0.1:9477\"");
    let (head, first) = ask(connect(&stage), REQUEST);
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    ping(&host, 20);
    let (_, second) = ask(connect(&stage), REQUEST);
    let unexplained: Vec<_> = second.lines().filter(|line| line.contains(" The counter ")).collect();
    assert!(unexplained.is_empty(), "{unexplained:?}");
    let (first, second) = (samples(&first), samples(&second));
    assert_eq!(second[r#"ringroad_router_up{router="edge"}"#], 1.0);
    assert_eq!(second["ringroad_telemetry_client_served_total"], 1.0);
    let series = r#"ringroad_nic_rx_frames_total{router="edge",nic="wan"}"#;
    assert!(second[series] >= first[series] + 20.0, "{} then {}", first[series], second[series]);
    for series in [
        r#"ringroad_nic_tx_drops_total{router="edge",nic="lan",reason="bad_ring"}"#,
        r#"ringroad_nic_register_accesses_total{router="edge",nic="lan",access="ims_write"}"#,
        r#"ringroad_nic_interrupts_raised_total{router="edge",nic="lan"}"#,
        r#"ringroad_nic_interrupts_moderated_total{router="edge",nic="wan"}"#,
        r#"ringroad_router_forwarded_total{router="edge",vcpu="vcpu0"}"#,
        r#"ringroad_tap_read_frames_total{router="edge",nic="wan"}"#,
        r#"ringroad_thread_cpu_seconds_total{router="edge",thread="vcpu0"}"#,
    ] {
        assert!(second.contains_key(series), "no {series} in {:?}", second.keys());
    }
    let unknown: Vec<_> = second.keys().filter(|series| series.starts_with("ringroad_other_")).collect();
    assert!(unknown.is_empty(), "counters without a place: {unknown:?}");
    // All values match the run's own counters.
    let counted = stage.run().wait_for_line(PATIENCE, |line| line.contains("edge.wan.rx.frames"));
    assert!(counted.is_ok());
    stage.finish(vec![host]).expect("a clean end");
}

/// File of a run whose parts have every kind of counter, except those of a guaranteed rate, which needs control
/// groups.
fn every_kind(folder: &Path) -> String {
    let at = |name: &str| folder.join(name).display().to_string();
    let nic = |name: &str, attach: &str, net: u8, more: &str| {
        format!(
            "[[router.nic]]\nname = \"{name}\"\nattach = \"{attach}\"\naddress = \"10.15.{net}.1/24\"\n{more}"
        )
    };
    [
        "[telemetry]\nprometheus = \"127.0.0.1:9477\"\n[switch.hub]\n".to_owned(),
        "[[router]]\nname = \"edge\"\nlimit = \"200kpps\"\n".to_owned(),
        nic("tap", "tap:t15-wan", 1, ""),
        nic("hub", "switch:hub", 2, "model = \"e1000\"\n"),
        nic("xdp", "xdp:t15-xdp", 3, ""),
        nic("file", &format!("pcap:{}", at("out.pcap")), 4, &format!("replay = \"{}\"\n", at("in.pcap"))),
        "[[router]]\nname = \"core\"\n".to_owned(),
        nic("hub", "switch:hub", 5, ""),
        nic("vm", &format!("vhost-user-backend:{}", at("a.sock")), 6, ""),
        nic("peer", &format!("vhost-user-frontend:{}", at("b.sock")), 7, "socket = \"listen\"\n"),
    ]
    .concat()
}

/// Checks a page with Prometheus' own tool (Debian: `prometheus`).
#[test]
fn prometheus_own_checker_takes_a_page_of_every_kind_of_counter() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("promtool"));
    let folder = tempfile::tempdir().expect("a folder");
    let empty = [0xa1b2_c3d4u32, 0x0002_0004, 0, 0, 65_535, 1].map(u32::to_be_bytes).concat();
    fs::write(folder.path().join("in.pcap"), empty).expect("written");
    let binary = env!("CARGO_BIN_EXE_ringroad");
    let started = Stage::start_after(binary, &every_kind(folder.path()), &["--json"], |home| {
        home.ip(&["link", "add", "t15-xdp", "type", "veth", "peer", "name", "t15-far"])?;
        home.ip(&["link", "set", "t15-xdp", "up"])
    });
    let (mut stage, _) = started.expect("it starts");
    stage.run().wait_for_line(PATIENCE, |line| line.contains("edge.tap.rx.frames")).expect("it is up");
    // CPU times of threads and cores appear from the second request on.
    ask(connect(&stage), REQUEST);
    let (_, page) = ask(connect(&stage), REQUEST);
    for part in [
        "nic_rx",
        "nic_tx",
        "nic_register",
        "nic_interrupts",
        "router",
        "guest_nic",
        "vcpu",
        "switch_port",
        "ingress",
        "ingress_limit",
        "tap_read",
        "tap_write",
        "tap_kernel",
        "xdp_read",
        "xdp_write",
        "xdp_kernel",
        "vhost_user_guest_rx",
        "vhost_user_guest_tx",
        "vhost_user_peer",
        "replay",
        "io_thread",
        "thread_work",
        "thread_sched",
        "thread_cpu",
        "host_cpu",
        "control_client",
        "telemetry_client",
        "data_plane",
        "events",
    ] {
        assert!(page.contains(&format!("\nringroad_{part}_")), "no counter of {part} in {page}");
    }
    let unexplained: Vec<_> =
        page.lines().filter(|l| l.contains(" The counter ") || l.starts_with("ringroad_other_")).collect();
    assert!(unexplained.is_empty(), "{unexplained:?}");
    let mut checker = Command::new("promtool");
    checker.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut checker = checker.spawn().expect("it starts");
    checker.stdin.take().expect("a pipe").write_all(page.as_bytes()).expect("written");
    let done = checker.wait_with_output().expect("it ends");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(done.stdout.is_empty() && done.stderr.is_empty(), "{done:?}");
    // The interface belongs to the test, and must be removed.
    stage.home().ip(&["link", "delete", "t15-far"]).expect("deleted");
    let told = stage.finish_troubled(vec![]).expect("it ends").stderr;
    assert!(told.lines().all(|line| line.contains(": notice: NIC ")), "{told}");
}

#[test]
fn counters_are_handed_out_at_a_socket_of_the_owner() {
    support::needs!(Root, Kvm, Tun, Program("busybox"));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("metrics");
    let (mut stage, host) = start(&format!("[telemetry]\nprometheus = \"unix:{}\"", path.display()));
    assert_eq!(fs::metadata(&path).expect("a socket").permissions().mode() & 0o777, 0o600);
    let (_, page) = ask(UnixStream::connect(&path).expect("somebody listens"), REQUEST);
    assert!(samples(&page)[r#"ringroad_nic_rx_frames_total{router="edge",nic="wan"}"#] > 0.0);
    // Another run cannot use the same socket, and does not disturb it.
    let second = fs::read_to_string(stage.path("file.toml")).expect("the file").replace("edge", "other");
    let second = second.replace("t15-wan", "t15-two");
    let other = folder.path().join("second.toml");
    fs::write(&other, second).expect("written");
    refused(&stage, &other);
    ask(UnixStream::connect(&path).expect("still there"), REQUEST);
    // When killed it cannot remove its socket; the cleaner does.
    stage.run().signal(Signal::KILL).expect("killed");
    stage.run().wait(PATIENCE).expect("it ends");
    let end = Instant::now() + PATIENCE;
    while path.exists() {
        assert!(Instant::now() < end, "the socket is left behind");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop((stage, host));
}

fn refused(stage: &Stage, file: &Path) {
    let mut run = stage.home().command(env!("CARGO_BIN_EXE_ringroad"));
    let done = support::run(run.arg("run").arg(file), PATIENCE).expect("it ends");
    assert!(!done.status.success());
    assert!(done.stderr.contains("it is a socket of another program"), "{}", done.stderr);
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
}

mod all {
    use super::*;

    /// A stopped router fetches no frames: those that its TAP cannot hold are lost, and counted.
    #[test]
    fn what_the_kernel_loses_before_a_router_is_counted() {
        support::needs!(Root, Kvm, Tun);
        let text = file("[telemetry]\nprometheus = \"127.0.0.1:9477\"")
            .replace("/24\"\n", "/24\"\nqueue_len = 50\n");
        let mut stage = Stage::start(env!("CARGO_BIN_EXE_ringroad"), &text).expect("it starts");
        stage.run().wait_for_line(PATIENCE, |line| line.contains("edge.wan.rx.frames")).expect("it is up");
        let lost = || {
            let (_, page) = ask(connect(&stage), REQUEST);
            samples(&page)[r#"ringroad_tap_kernel_drops_total{router="edge",nic="wan",reason="full"}"#]
        };
        let send = |frames: u32| {
            let home = stage.home().inside(move || {
                let links = uplink::Links::here()?;
                links.add_address("t15-wan", Ipv4Addr::new(192, 0, 2, 2), 24)?;
                links.add_neighbour("t15-wan", Ipv4Addr::new(192, 0, 2, 1), [2, 0, 0, 0, 0, 1])?;
                let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
                (0..frames)
                    .try_for_each(|_| socket.send_to(&[0; 20], (Ipv4Addr::new(192, 0, 2, 1), 9)).map(drop))?;
                anyhow::Ok(())
            });
            home.expect("inside").expect("sent");
        };
        let before = lost();
        let mut stop = stage.home().command(env!("CARGO_BIN_EXE_ringroad"));
        assert!(support::run(stop.args(["stop", "edge"]), PATIENCE).expect("it ends").status.success());
        send(500);
        let lost = lost() - before;
        assert!((300.0..=500.0).contains(&lost), "{lost}");
        stage.finish(vec![]).expect("a clean end");
    }

    #[test]
    fn bad_clients_disturb_nobody() {
        support::needs!(Root, Kvm, Tun, Program("busybox"));
        let (mut stage, host) = start("[telemetry]\nprometheus = \"127.0.0.1:9477\"");
        let supervisor = Process::look(stage.run().id()).expect("the supervisor");
        // From the first request on, CPU times of threads and cores are read from files that stay open.
        ask(connect(&stage), REQUEST);
        let before = supervisor.descriptors().expect("its descriptors");
        // Some clients say nothing, some speak another protocol, some ask and never read.
        let mut bad: Vec<TcpStream> = (0..60).map(|_| connect(&stage)).collect();
        for (number, client) in bad.iter_mut().enumerate() {
            let words: &[u8] = match number % 4 {
                0 => b"",
                1 => &[0xff; 3000],
                2 => b"GET /metrics HTTP/1.1\r\nX-Long: ",
                _ => REQUEST,
            };
            // It may have been cut off already.
            let _ = client.write_all(words);
        }
        // Frames are forwarded meanwhile.
        ping(&host, 20);
        let (head, page) = ask(connect(&stage), REQUEST);
        assert!(head.starts_with("HTTP/1.1 200 ") && !page.is_empty(), "{head}");
        for (request, status) in [
            (&b"GET /etc/passwd HTTP/1.1\r\n\r\n"[..], "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"nonsense\r\n\r\n", "400"),
        ] {
            let (head, _) = ask(connect(&stage), request);
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        }
        // They are cut off although they do not hang up.
        let end = Instant::now() + PATIENCE;
        while supervisor.descriptors().expect("its descriptors") > before {
            assert!(Instant::now() < end, "descriptors are kept");
            std::thread::sleep(Duration::from_millis(50));
        }
        drop(bad);
        assert!(!stage.run().ended().expect("it can be asked"));
        stage.finish(vec![host]).expect("a clean end");
    }

    #[test]
    fn nothing_listens_unless_the_file_says_so() {
        support::needs!(Root, Kvm, Tun, Program("busybox"));
        let (stage, host) = start("");
        for table in ["tcp", "tcp6", "udp", "udp6"] {
            let sockets = stage
                .home()
                .inside(|| fs::read_to_string(format!("/proc/thread-self/net/{table}")))
                .expect("inside")
                .expect("readable");
            assert_eq!(sockets.lines().count(), 1, "{table}: {sockets}");
        }
        stage.finish(vec![host]).expect("a clean end");
    }
}
