//! Scene: a run with a neighbour that forwards a million packets a second on one CPU, and an attacked router on the other.

use std::net::Ipv4Addr;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use api::{Client, State};
use support::{Counters, Namespace, PacedSender, Packet, Stage, descendants_of, put_on_cpu, threads_of, udp};

use super::usage::Ids;

/// CPU of the neighbour, and CPU of all others.
pub(super) const NEAR_CPU: usize = 0;
pub(super) const OTHER_CPU: usize = 1;
/// Packets a second through the neighbour, and through the attacked router.
const RATE: u64 = 1_000_000;
const FEED: u64 = 5_000;
/// Timeout of every step, even on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Name of the run.
pub(super) const NAME: &str = "attacks";

const NEAR: &str = "\
[[router]]
name = 'near'
engine = 'process'
memory = '32M'
spin = '0us'
[[router.nic]]
name = 'in'
attach = 'vhost-user-backend:near.sock'
mac = '02:00:00:00:36:01'
address = '10.1.1.1/24'
[[router.nic]]
name = 'out'
attach = 'null'
address = '10.1.2.1/24'
[[router.neighbour]]
address = '10.1.2.2'
mac = '02:00:00:00:36:99'
";
const BAD: &str = "\
[[router]]
name = 'bad'
restart = 'always'
pin = { vcpu = '1', vhost = '1' }
";
/// NIC that receives the frames that leave at the attacked NIC.
const FED: &str = "\
[[router.nic]]
name = 'feed'
attach = 'vhost-user-backend:feed.sock'
mac = '02:00:00:00:36:02'
";
/// The attacked NIC.
const DOOR: &str = "\
[[router.nic]]
name = 'door'
";
const FAR: &str = "\
[[router.neighbour]]
address = '10.2.2.2'
mac = '02:00:00:00:36:98'
";

/// Configuration of the attacked router.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct VictimConfig {
    /// Keys of the router.
    pub(super) router: &'static str,
    /// `attach` of the attacked NIC, and its other keys.
    pub(super) attach: &'static str,
    /// Other parts of the file.
    pub(super) more: &'static str,
}

impl VictimConfig {
    /// Returns the whole file.
    pub(super) fn file(&self) -> String {
        let router = format!("memory = '32M'\n{}\n", self.router);
        let feed = [FED, "address = '10.2.1.1/24'\n"].concat();
        let door = format!("{DOOR}address = '10.2.2.1/24'\nattach = {}\n", self.attach);
        [self.more, NEAR, BAD, &router, &feed, &door, FAR].concat()
    }

    /// Returns the whole file with a Linux guest instead of the router, with this kernel and this console.
    pub(super) fn linux_file(&self, kernel: &Path, console: &Path) -> String {
        let (kernel, console) = (kernel.display(), console.display());
        let router =
            format!("memory = '64M'\nengine = 'linux'\nkernel = '{kernel}'\nconsole = '{console}'\n");
        let door = format!("{DOOR}attach = {}\n", self.attach);
        [self.more, NEAR, BAD, &router, FED, &door].concat()
    }
}

/// Running scene.
pub(super) struct Scene {
    pub(super) stage: Stage,
    pub(super) site: VictimConfig,
    pub(super) hosts: Vec<Namespace>,
    client: Client,
    near: PacedSender,
    feed: Option<PacedSender>,
}

impl Scene {
    /// Starts the run and the traffic.
    pub(super) fn set(binary: &str, site: VictimConfig) -> Result<Self> {
        let options = ["--json", "--log", "text", "--name", NAME];
        let mut stage = Stage::start_with_groups(binary, &site.file(), &options)?;
        let mut client = connected(&mut stage)?;
        until_running(&mut client).with_context(|| stage.run().stderr_lines(0).join("; "))?;
        let sender = |socket: &str, frame: &[u8], rate, cpu| {
            PacedSender::start(&stage.path(socket), frame, rate, cpu).with_context(|| socket.to_owned())
        };
        let near = sender("near.sock", &frame(1, [10, 1, 1, 2], [10, 1, 2, 2]), RATE, NEAR_CPU)?;
        let feed = sender("feed.sock", &frame(2, [10, 2, 1, 2], [10, 2, 2, 2]), FEED, OTHER_CPU)?;
        let mut scene = Self { stage, site, hosts: Vec::new(), client, near, feed: Some(feed) };
        scene.place()?;
        Ok(scene)
    }

    /// Process IDs of its supervisor and data plane.
    pub(super) fn ids(&mut self) -> Result<Ids> {
        let supervisor = self.stage.run().id();
        let plane = self.client.status()?.data_plane.context("there is no data plane")?;
        Ok(Ids { supervisor, plane })
    }

    /// Places all threads, including new ones, on their CPUs. The file does not pin the neighbour's threads, because a supervisor
    /// confined to one CPU accepts no file that names the other.
    pub(super) fn place(&mut self) -> Result<()> {
        let supervisor = self.stage.run().id();
        let processes = descendants_of(supervisor).into_iter().map(|process| process.id).chain([supervisor]);
        for (thread, name) in processes.flat_map(|id| threads_of(id).unwrap_or_default()) {
            put_on_cpu(thread, if name.starts_with("near/") { NEAR_CPU } else { OTHER_CPU });
        }
        ensure!(!self.stage.run().ended()?, "the run has ended: {:?}", self.stage.run().stderr_lines(0));
        Ok(())
    }

    /// Reads the neighbour's counters.
    pub(super) fn counters(&mut self) -> Result<api::Counters> {
        Ok(self.client.counters(Some("near"))?)
    }

    /// Opens another connection to the run.
    pub(super) fn client(&self) -> Result<Client> {
        self.stage.client()
    }

    /// Creates a host at the TAP of the attacked router.
    pub(super) fn host(&mut self, tap: &str) -> Result<Namespace> {
        self.stage.host(tap, "10.2.2.2/24", "10.2.2.1")
    }

    /// Ends the run; returns the frames sent to the neighbour, and its counters.
    pub(super) fn end(mut self) -> Result<(u64, Counters)> {
        drop(self.feed.take());
        let Self { stage, hosts, near, .. } = self;
        let given = near.stop()?;
        let done = stage.finish_troubled(hosts)?;
        Ok((given, Counters::of(done.stdout.lines().filter(|line| line.contains("\"counters\"")))?))
    }

    /// Returns the last lines that the run has printed.
    pub(super) fn said(&mut self) -> Vec<String> {
        self.stage.run().stderr_lines(0)
    }
}

fn connected(stage: &mut Stage) -> Result<Client> {
    let end = Instant::now() + PATIENCE;
    loop {
        match stage.client() {
            Ok(client) => return Ok(client),
            Err(error) => {
                let over = stage.run().ended()? || Instant::now() > end;
                ensure!(!over, "{error:#}: {}", stage.run().stderr_lines(0).join("; "));
            }
        }
        sleep(Duration::from_millis(20));
    }
}

fn until_running(client: &mut Client) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        if client.status()?.routers.iter().all(|router| router.state == State::Running) {
            return Ok(());
        }
        ensure!(Instant::now() < end, "its routers do not come up");
        sleep(Duration::from_millis(20));
    }
}

/// Builds a frame of 60 octets to the router with this number.
fn frame(router: u8, from: [u8; 4], to: [u8; 4]) -> Vec<u8> {
    let (source, destination) = (Ipv4Addr::from(from), Ipv4Addr::from(to));
    let packet = Packet {
        to: [2, 0, 0, 0, 0x36, router],
        from: [2, 0, 0, 0, 0x36, 0x10 + router],
        source,
        destination,
        ttl: 64,
        tos: 0,
        id: 0,
        fragment: 0,
        options: Vec::new(),
        protocol: 17,
        payload: udp(source, destination, (7036, 7036), &[0x36; 18]),
    };
    packet.frame()
}
