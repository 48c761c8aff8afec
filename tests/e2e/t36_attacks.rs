//! Objective: a vhost-user peer that does what no correct one would (`support::vhost_peer`) delays no other component: it is
//! disconnected with a line, the data plane survives and still answers, and a neighbour's packets are all forwarded.

use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use api::{Answer, Request};
use support::attack::{Attack, Deed, Machine, be_asked, be_handed};
use support::vhost_peer::{VhostPeer, event, is_rung, make_wait, request};
use support::{Flow, Namespace, Running, Stage, children_of};

const BINARY: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Datagrams a second through the neighbour.
const RATE: u32 = 1000;
/// Address without a host; to resolve it the router sends the peer a frame.
const NOBODY: &str = "192.0.2.9";

fn nic(name: &str, attach: &str, address: &str) -> String {
    format!("[[router.nic]]\nname = '{name}'\nattach = '{attach}'\naddress = '{address}'\n")
}

/// Router to which attackers connect, its neighbour, and the flow through that.
struct Scene {
    stage: Stage,
    socket: PathBuf,
    hosts: Vec<Namespace>,
    flow: Flow,
    plane: u32,
    _folder: tempfile::TempDir,
}

impl Scene {
    fn set() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("peer.sock");
        let file = "[[router]]\nname = 'bad'\nengine = 'process'\n".to_owned()
            + &nic("peer", &format!("vhost-user-backend:{}", socket.display()), "192.0.2.1/24")
            + &nic("host", "tap:t36-host", "198.51.100.1/24")
            + "[[router]]\nname = 'near'\nengine = 'process'\n"
            + &nic("left", "tap:t36-left", "10.1.1.1/24")
            + "queue_len = 4096\n"
            + &nic("right", "tap:t36-right", "10.1.2.1/24");
        let mut stage = Stage::start_with(BINARY, &file, &["--json", "--log", "text"]).expect("it starts");
        let mut host =
            |tap, net: &str| stage.host(tap, &format!("{net}.2/24"), &format!("{net}.1")).expect("a host");
        let hosts =
            vec![host("t36-host", "198.51.100"), host("t36-left", "10.1.1"), host("t36-right", "10.1.2")];
        let to = SocketAddr::from(([10, 1, 2, 2], 7036));
        let flow = Flow::start(&hosts[1], &hosts[2], to, RATE).expect("a way through the neighbour");
        let plane = plane(&mut stage);
        Self { stage, socket, hosts, flow, plane, _folder: folder }
    }

    /// Connects the next attacker, once connections are accepted again, and shares its memory.
    fn attacker(&self) -> VhostPeer {
        let peer = VhostPeer::connect(&self.socket).expect("it listens");
        peer.begin().expect("it is met");
        peer
    }

    /// Makes the router send frames to the peer until the peer is disconnected.
    fn until_left(&self, peer: &VhostPeer) {
        let mut ping = self.hosts[0].command("busybox");
        let ping = Running::start(ping.args(["ping", "-i", "0.1", "-w", "99", NOBODY])).expect("ping starts");
        let end = Instant::now() + PATIENCE;
        while !peer.is_closed() {
            assert!(Instant::now() < end, "it is not sent away");
            self.answers();
            sleep(Duration::from_millis(20));
        }
        drop(ping);
    }

    fn heard(&mut self, peer: &VhostPeer) {
        if let Err(error) = peer.wait_until_heard() {
            panic!("{error:#}: {:#?}", self.stage.run().stderr_lines(0));
        }
    }

    fn answers(&self) {
        let done = support::run(self.stage.home().command(BINARY).arg("ps"), PATIENCE).expect("it ends");
        assert!(done.status.success() && done.stdout.contains("near"), "{}{}", done.stdout, done.stderr);
    }

    /// Checks that this many attackers were disconnected with this message, and that nothing else happened.
    fn end(mut self, told: &str, times: usize) {
        let now = plane(&mut self.stage);
        assert_eq!(now, self.plane, "another data plane: {:#?}", self.stage.run().stderr_lines(0));
        let tally = self.flow.stop().expect("it stops");
        assert!(tally.sent > 0 && tally.lost() == 0, "the neighbour: {tally:?}");
        let done = self.stage.finish_troubled(self.hosts).expect("nothing is left");
        assert_eq!(done.stderr.lines().filter(|line| line.contains(told)).count(), times, "{}", done.stderr);
    }
}

fn wait_for(what: &str, mut there: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !there() {
        assert!(Instant::now() < end, "in vain: {what}");
        sleep(Duration::from_millis(5));
    }
}

/// Returns the output of `show` for the router.
fn shown(stage: &Stage) -> String {
    let done = support::run(stage.home().command(BINARY).args(["show", "bad"]), PATIENCE).expect("it ends");
    done.stdout
}

fn plane(stage: &mut Stage) -> u32 {
    let is_plane = |words: &[String]| words.get(1).is_some_and(|verb| verb == "data-plane");
    let planes = children_of(stage.run().id());
    planes.iter().find(|child| is_plane(&child.words)).expect("a data plane").id
}

#[test]
fn a_peer_whose_events_make_us_wait_is_sent_away_and_nobody_else_waits() {
    support::needs!(Root, Tun, Program("ip"), Program("busybox"));
    let mut scene = Scene::set();
    for while_served in [true, false] {
        let (peer, call) = (scene.attacker(), event().expect("a descriptor"));
        peer.post(0).expect("posted");
        peer.lay_out(0, &call).expect("laid out");
        scene.heard(&peer);
        if while_served {
            peer.give_doorbell(0).expect("served");
            wait_for("being served", || is_rung(&call));
            let named = format!("NIC peer: a peer is served (process {} of user 0)", std::process::id());
            let run = scene.stage.run();
            wait_for("its name", || run.stderr_lines(0).iter().any(|line| line.ends_with(&named)));
            make_wait(&call).expect("it was honest until now");
        } else {
            make_wait(&call).expect("it was honest until now");
            peer.give_doorbell(0).expect("served");
        }
        scene.until_left(&peer);
    }
    scene.end("made a thread of ours wait", 2);
}

/// Each attacker attacks so many times.
fn peers_do_what_they_may(acts: u32) {
    let scene = Scene::set();
    let mut ping = scene.hosts[0].command("busybox");
    let ping = Running::start(ping.args(["ping", "-i", "0.1", "-w", "99", NOBODY])).expect("ping starts");
    for deed in [Deed::Chains, Deed::Kicks, Deed::Bases, Deed::Tables, Deed::Hasty] {
        let mut machine = Machine::new(&scene.socket, &scene.stage.path(""), deed);
        for _ in 0..acts {
            let done = machine.act(Instant::now() + PATIENCE);
            assert!(done.expect("it attacks"), "{deed:?}: nobody lets it");
            scene.answers();
        }
    }
    drop(ping);
    // The next peer is accepted.
    drop(scene.attacker());
    scene.end("the peer was sent away", 0);
}

/// A program keeps the rings of a router that is restarted, which waits for them for a second, and so do the commands that follow.
#[test]
fn how_routers_are_is_told_while_one_of_them_is_waited_for() {
    support::needs!(Root);
    let file = "[[router]]\nname = 'bad'\nengine = 'process'\n".to_owned()
        + &nic("peer", "vhost-user-frontend:keeper.sock", "192.0.2.1/24");
    let stage = Stage::start(BINARY, &file).expect("it starts");
    let listener = UnixListener::bind(stage.path("keeper.sock")).expect("a socket");
    listener.set_nonblocking(true).expect("it can be looked at");
    let told_meanwhile = || {
        let mut called = None;
        wait_for("a call", || {
            called = listener.accept().ok();
            called.is_some()
        });
        let (peer, _) = called.expect("it calls");
        peer.set_nonblocking(false)
            .and_then(|()| peer.set_read_timeout(Some(PATIENCE)))
            .expect("it is waited for");
        let _memory = be_handed(&peer).expect("the memory");
        let (mut owner, mut other) =
            (stage.client().expect("it answers"), stage.client().expect("it answers"));
        owner.set_timeout(PATIENCE);
        other.set_timeout(PATIENCE);
        // First the memory is handed over. A router that is not up is not restarted, and rings that are still being handed over are not
        // requested back: the connection ends.
        wait_for("its rings handed over", || shown(&stage).contains("handed to keeper.sock"));
        owner.send(&Request::Restart { router: "bad".to_owned() }).expect("it is heard");
        be_asked(&peer, request::GET_VRING_BASE).expect("its rings are asked for");
        let Ok(Answer::Ps(status)) = other.ask(&Request::Ps {}) else { panic!("it is told how they are") };
        assert_eq!(status.routers.len(), 1);
        owner.set_timeout(Duration::from_millis(1));
        let is_done = owner.next_answer().is_ok();
        owner.set_timeout(PATIENCE);
        assert!(is_done || owner.next_answer().is_ok(), "it is restarted");
        !is_done
    };
    // If the host takes its CPUs away for a second, nothing happens meanwhile.
    assert!((0..5).any(|_| told_meanwhile()), "only when it is over");
    drop(listener);
    stage.finish_troubled(Vec::new()).expect("nothing is left");
}

mod all {
    use super::*;

    #[test]
    fn what_a_peer_may_do_without_end_costs_its_neighbour_nothing() {
        support::needs!(Root, Tun, Program("ip"), Program("busybox"));
        peers_do_what_they_may(5);
    }

    /// The NIC beside it is served by the same thread, which would have time for hardly a burst between waits.
    #[test]
    fn a_peer_that_makes_each_ring_wait_a_little_is_sent_away_as_well() {
        support::needs!(Root, Tun, Program("ip"), Program("busybox"));
        let scene = Scene::set();
        let mut ping = scene.hosts[0].command("busybox");
        let ping = Running::start(ping.args(["ping", "-i", "0.1", "-w", "99", NOBODY])).expect("ping starts");
        let mut machine = Machine::new(&scene.socket, &scene.stage.path(""), Deed::WaitALittle);
        for _ in 0..3 {
            assert!(machine.act(Instant::now() + PATIENCE).expect("it attacks"), "it is never found out");
            scene.answers();
        }
        drop(ping);
        let mut own = scene.hosts[0].command("busybox");
        let own =
            support::run(own.args(["ping", "-c", "3", "-w", "60", "198.51.100.1"]), PATIENCE).expect("ping");
        assert!(own.status.success(), "the NIC beside it: {}", own.stdout);
        scene.end("made a thread of ours wait", 3);
    }

    #[test]
    fn what_a_peer_may_do_without_end_costs_its_neighbour_nothing_however_often_it_is_done() {
        support::needs!(Root, Tun, Program("ip"), Program("busybox"));
        peers_do_what_they_may(20);
    }
}
