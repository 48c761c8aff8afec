//! Objective: the firmware as an end station against the kernel's own stack, over a TAP, with both engines, both NIC
//! models and each transmit mode: ping, TCP and UDP in both roles, octet for octet.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bootinfo::{Role, Station, TrafficInfo};
use config::Engine;
use engine::{Confinement, ExecutionBackend, Guest, GuestTask, Idle, IoThread, Pump};
use ledger::StationTally;
use uplink::{Netns, Tap, TapConfig};

/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
const TAP: &str = "t21";
/// The kernel's address and the station's.
const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const STATION: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const ECHO: u16 = 7;
const DISCARD: u16 = 9;
/// Period of the counting pattern in a station's stream.
const PATTERN: usize = 251;

/// Station at a TAP. The order of the fields is the drop order.
struct Bench {
    io: IoThread,
    clock: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    guest: Guest,
    netns: Netns,
}

/// Engine of the station, and the keys of its NIC.
#[derive(Clone, Copy, Debug)]
struct Make(Engine, &'static str);

const VIRTIO_NET: &str = "model = 'virtio-net'";
const E1000: &str = "model = 'e1000'";
const BASE: &str = "model = 'e1000'\nmode = 'base'";
const ASYNC: &str = "model = 'e1000'\nmode = 'async'";
const COMBINING: &str = "model = 'e1000'\nmode = 'send-combining'\nitr = 100";
const COALESCED: &str = "model = 'e1000'\nmode = 'coalesced'";

/// The common combinations.
const COMMON: [Make; 4] = [
    Make(Engine::Kvm, VIRTIO_NET),
    Make(Engine::Kvm, E1000),
    Make(Engine::Process, VIRTIO_NET),
    Make(Engine::Process, E1000),
];
/// Combinations whose driver is interrupt-driven.
const STOCK: [Make; 5] = [
    Make(Engine::Kvm, BASE),
    Make(Engine::Kvm, ASYNC),
    Make(Engine::Kvm, COMBINING),
    Make(Engine::Kvm, COALESCED),
    Make(Engine::Process, BASE),
];

impl Bench {
    fn start(Make(engine, nic): Make, station: Station, write_len: u32) -> Self {
        let netns = Netns::new().expect("a namespace");
        let links = netns.settle(false).expect("settled");
        let config = TapConfig { netns: Some(&netns), ..TapConfig::default() };
        let tap = Tap::open(TAP, &config).expect("a TAP");
        links.add_address(TAP, HOST, 24).expect("an address");
        let text = format!(
            "[[router]]\nname = 't21'\nengine = '{}'\n\
             [[router.nic]]\nname = 'nic'\nattach = 'null'\naddress = '{STATION}/24'\n{nic}\n",
            engine.name()
        );
        let plan = config::parse(&text, "t21.toml").expect("a good file").routers.remove(0);
        let traffic = TrafficInfo {
            station: station as u32,
            to_ip: HOST.to_bits(),
            write_len,
            ..TrafficInfo::default()
        };
        let backend = ExecutionBackend::open(engine).expect("an engine");
        let mut guest =
            Guest::new(&plan, GuestTask { role: Role::Station, traffic }, &backend).expect("a guest");
        guest.start().expect("it starts");
        let (from, to) = tap.split();
        let nic = &guest.nics()[0];
        nic.transmit_in_access(to.clone());
        let pumps =
            vec![Pump { source: Box::new(from), sink: nic.sink() }, Pump { source: nic.source(), sink: to }];
        let idle = Idle::Sleep(Duration::from_micros(50));
        let io = IoThread::spawn("t21/vhost", &[], pumps, idle, Confinement::Off).expect("a thread");
        let (clock, stop) = Self::tick(&guest);
        Self { io, clock: Some(clock), stop, guest, netns }
    }

    /// Starts a thread that advances the guest's clock while it sleeps.
    fn tick(guest: &Guest) -> (JoinHandle<()>, Arc<AtomicBool>) {
        let (machine, stop) = (guest.machine().clone(), Arc::<AtomicBool>::default());
        let asked = stop.clone();
        let clock = thread::spawn(move || {
            while !asked.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(20));
                machine.tick(20);
            }
        });
        (clock, stop)
    }

    fn tally(&self) -> &StationTally {
        &self.guest.machine().shared().vcpus[0].station
    }

    /// Waits until the station's counters meet a condition.
    #[track_caller]
    fn wait(&self, what: &str, done: impl Fn(&StationTally) -> bool) {
        let start = Instant::now();
        while !done(self.tally()) {
            assert!(start.elapsed() < PATIENCE, "waited in vain for {what}: {:?}", self.tally());
            assert_eq!(self.guest.fault(), None);
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn connect(&self, port: u16) -> TcpStream {
        self.try_to_connect(port).expect("it connects")
    }

    /// Connects when all places may be taken by connections whose end the station has not yet seen.
    fn connect_when_there_is_a_place(&self, port: u16) -> TcpStream {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.try_to_connect(port) {
                Ok(stream) => return stream,
                Err(error) => assert!(Instant::now() < end, "the places stay taken: {error}"),
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn try_to_connect(&self, port: u16) -> std::io::Result<TcpStream> {
        let connect = || TcpStream::connect_timeout(&(STATION, port).into(), PATIENCE);
        let stream = self.netns.run(connect).expect("inside")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    fn listen(&self, port: u16) -> TcpListener {
        self.netns.run(|| TcpListener::bind((HOST, port))).expect("inside").expect("bound")
    }

    /// Accepts the station's next connection.
    fn accept(&self, listener: &TcpListener) -> TcpStream {
        listener.set_nonblocking(true).expect("set");
        let end = Instant::now() + PATIENCE;
        let stream = loop {
            match listener.accept() {
                Ok((stream, _)) => break stream,
                Err(error) => assert!(Instant::now() < end, "{error}: {:?}", self.tally()),
            }
            thread::sleep(Duration::from_millis(2));
        };
        stream.set_nonblocking(false).expect("set");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    fn datagrams(&self, port: u16) -> UdpSocket {
        let socket = self.netns.run(|| UdpSocket::bind((HOST, port))).expect("inside").expect("bound");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        socket
    }

    /// Checks that no frame was lost on the station's side of its rings.
    fn finish(mut self) {
        assert_eq!(self.guest.fault(), None);
        assert_eq!(self.guest.machine().shared().vcpus[0].nics[0].drop_tx_full.get(), 0, "it waits for room");
        self.stop.store(true, Ordering::Relaxed);
        self.clock.take().map(JoinHandle::join);
        self.io.stop();
        self.guest.stop();
    }
}

/// Runs the test with each of these combinations whose engine this host supports.
fn with(makes: &[Make], station: Station, write_len: u32, test: impl Fn(&Bench)) {
    for make in makes {
        if let Err(error) = ExecutionBackend::open(make.0) {
            println!("SKIPPED: {error:#}");
            continue;
        }
        println!("{make:?}");
        let bench = Bench::start(*make, station, write_len);
        test(&bench);
        bench.finish();
    }
}

fn with_engines(station: Station, write_len: u32, test: impl Fn(&Bench)) {
    with(&COMMON, station, write_len, test);
}

fn octets(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % PATTERN) as u8).collect()
}

/// Sends octets to the echo service and returns what came back.
fn echo(mut stream: TcpStream, sent: &[u8]) -> Vec<u8> {
    let mut other = stream.try_clone().expect("a clone");
    thread::scope(|scope| {
        scope.spawn(move || {
            other.write_all(sent).expect("the stream goes on");
            other.shutdown(Shutdown::Write).expect("shut down");
        });
        let mut back = Vec::new();
        stream.read_to_end(&mut back).expect("the stream comes back");
        back
    })
}

#[test]
fn a_server_answers_pings_and_echoes_tcp_and_udp() {
    support::needs!(Root, Kvm, Tun, Program("busybox"));
    with_engines(Station::Server, 0, |bench| {
        for octets in ["0", "56", "1472"] {
            let busybox = bench.netns.command("busybox");
            let options = ["-s", octets, &STATION.to_string()];
            bench.netns.run(|| support::ping(busybox, 3, &options)).expect("inside").expect("answers");
        }
        let near = bench.datagrams(0);
        for len in [0, 1, 18, 512, 1472] {
            let (sent, mut buffer) = (octets(len), [0; 2048]);
            near.send_to(&sent, (STATION, ECHO)).expect("sent");
            let (len, from) = near.recv_from(&mut buffer).expect("it comes back");
            assert_eq!(from, (STATION, ECHO).into());
            assert!(buffer[..len] == sent[..], "{len} octets");
        }
        let sent = octets(3_000_000);
        assert!(echo(bench.connect(ECHO), &sent) == sent, "what came back is not what was sent");
        assert_eq!(bench.tally().datagrams_sent.get(), 5);
        assert_eq!(bench.tally().octets_sent.get(), bench.tally().octets_received.get());
    });
}

mod all {
    use super::*;

    #[test]
    fn a_server_takes_several_visitors_at_a_time_and_others_after_them() {
        support::needs!(Root, Kvm, Tun);
        with_engines(Station::Server, 0, |bench| {
            for round in 0..3 {
                let mut visitors: Vec<_> =
                    (0..4).map(|_| bench.connect_when_there_is_a_place(ECHO)).collect();
                let refused =
                    bench.netns.run(|| TcpStream::connect_timeout(&(STATION, ECHO).into(), PATIENCE));
                assert!(refused.expect("inside").is_err(), "there is no fifth place");
                for (at, visitor) in visitors.iter_mut().enumerate() {
                    visitor.write_all(&[at as u8]).expect("sent");
                }
                for (at, visitor) in visitors.iter_mut().enumerate() {
                    let mut answer = [0; 1];
                    visitor.read_exact(&mut answer).expect("answered");
                    assert_eq!(answer, [at as u8]);
                }
                drop(visitors);
                // The places are free again once the last acknowledgement has arrived.
                drop(bench.connect_when_there_is_a_place(ECHO));
                bench.wait("all to be counted", |tally| tally.connections.get() >= 5 * (round + 1));
            }
            assert_eq!(bench.tally().resets.get(), 0, "all ended well");
        });
    }

    #[test]
    fn a_server_throws_away_what_is_to_be_thrown_away_and_counts_it() {
        support::needs!(Root, Kvm, Tun);
        with_engines(Station::Server, 0, |bench| {
            let mut stream = bench.connect(DISCARD);
            stream.write_all(&octets(5_000_000)).expect("taken");
            bench.wait("5 MB", |tally| tally.octets_received.get() == 5_000_000);
            drop(stream);
            let near = bench.datagrams(0);
            for _ in 0..100 {
                near.send_to(&[0; 1000], (STATION, DISCARD)).expect("sent");
            }
            bench.wait("100 datagrams", |tally| tally.datagrams_received.get() == 100);
            assert_eq!(bench.tally().octets_received.get(), 5_100_000);
            assert_eq!(bench.tally().octets_sent.get(), 0);
        });
    }

    #[test]
    fn a_stream_arrives_whole_and_begins_again_where_the_other_side_ends_it() {
        support::needs!(Root, Kvm, Tun);
        // A segment, less than a segment, and more than the window.
        for write_len in [1460, 100, 1 << 20] {
            with_engines(Station::TcpStream, write_len, |bench| {
                let listener = bench.listen(DISCARD);
                for _ in 0..2 {
                    let mut stream = bench.accept(&listener);
                    let mut came = vec![0; 4_000_000];
                    stream.read_exact(&mut came).expect("the stream goes on");
                    assert!(came == octets(came.len()), "it is not what was sent");
                }
                assert!(bench.tally().octets_sent.get() >= 8_000_000);
                bench.wait("the second connection", |tally| tally.connections.get() >= 2);
            });
        }
    }

    #[test]
    fn requests_are_answered_one_by_one() {
        support::needs!(Root, Kvm, Tun);
        with_engines(Station::TcpRequests, 1, |bench| {
            let listener = bench.listen(ECHO);
            let mut stream = bench.accept(&listener);
            stream.set_nodelay(true).expect("set");
            let mut buffer = [0; 64];
            for n in 0..500u32 {
                let len = stream.read(&mut buffer).expect("asked");
                assert_eq!(buffer[..len], [n as u8], "one at a time, in order");
                stream.write_all(&buffer[..len]).expect("answered");
            }
            bench.wait("500 transactions", |tally| tally.transactions.get() == 500);
            // Before the listener existed, a connection may have been refused.
            let resets = bench.tally().resets.get();
            // A wrong answer is not counted: the station starts anew.
            assert_eq!(stream.read(&mut buffer).expect("asked"), 1);
            stream.write_all(&[buffer[0].wrapping_add(1)]).expect("answered");
            let mut stream = bench.accept(&listener);
            assert_eq!(stream.read(&mut buffer).expect("asked"), 1);
            assert_eq!((bench.tally().transactions.get(), bench.tally().resets.get()), (500, resets + 1));
        });
    }

    #[test]
    fn datagrams_come_in_order_and_are_of_the_size_asked_for() {
        support::needs!(Root, Kvm, Tun);
        for len in [8, 500, 1460] {
            with_engines(Station::UdpStream, len, |bench| {
                // The socket's queue is bounded, so some datagrams may be missing; none arrives twice or late.
                let socket = bench.datagrams(DISCARD);
                let (mut buffer, mut last) = ([0; 2048], None);
                for _ in 0..2000 {
                    let (got, from) = socket.recv_from(&mut buffer).expect("it comes");
                    assert_eq!((got, from.ip()), (len as usize, STATION.into()));
                    let number = u64::from_be_bytes(buffer[..8].try_into().expect("8 octets"));
                    assert!(last.is_none_or(|last| number > last), "{number} after {last:?}");
                    last = Some(number);
                }
            });
        }
    }

    #[test]
    fn drivers_that_live_by_interrupts_lose_nothing_either() {
        support::needs!(Root, Kvm, Tun);
        with(&STOCK, Station::Server, 0, |bench| {
            let sent = octets(500_000);
            assert!(echo(bench.connect(ECHO), &sent) == sent, "what came back is not what was sent");
        });
        with(&STOCK, Station::TcpStream, 1460, |bench| {
            let mut stream = bench.accept(&bench.listen(DISCARD));
            let mut came = vec![0; 500_000];
            stream.read_exact(&mut came).expect("the stream goes on");
            assert!(came == octets(came.len()), "it is not what was sent");
        });
        with(&STOCK, Station::TcpRequests, 1, |bench| {
            let mut stream = bench.accept(&bench.listen(ECHO));
            stream.set_nodelay(true).expect("set");
            for n in 0..50u8 {
                let mut asked = [0; 1];
                stream.read_exact(&mut asked).expect("asked");
                assert_eq!(asked, [n]);
                stream.write_all(&asked).expect("answered");
            }
        });
    }
}
