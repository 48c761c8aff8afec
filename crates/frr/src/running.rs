//! FRR that runs: carries out what its [`Supervision`] decides, in a [`House`], and passes on what the daemons say. It never waits
//! for a daemon.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, ExitStatus};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Pid, Signal, kill_process};

use crate::house::{House, NoHouse};
use crate::lines::Lines;
use crate::{Act, CommandLine, Content, Daemon, Health, Layout, News, Options, Owner, Programs, Supervision};

/// Milliseconds between two looks at a daemon that was started and does not answer yet, and at vtysh.
const LOOK: u64 = 20;
/// Most turns of supervision in one of ours: a daemon that cannot be started leads to another one.
const TURNS: usize = 4;

/// What a control plane is made of.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Programs of this host.
    pub programs: Programs,
    /// Folders and files.
    pub layout: Layout,
    /// Folders that are in memory in the house: [`crate::FOLDERS`], except in tests.
    pub folders: &'static [&'static str],
    /// What of a data path the daemons use.
    pub options: Options,
    /// User and group of the daemons.
    pub owner: Option<Owner>,
}

/// Something that others may want to know.
#[derive(Clone, Copy, Debug)]
pub enum Heard<'a> {
    /// A daemon has said this.
    Line(Daemon, &'a str),
    /// vtysh has said this while it loaded the configuration: see [`crate::log::refusal`].
    Vtysh(&'a str),
    /// The configuration was loaded; true if all of it was accepted.
    Loaded(bool),
    /// A daemon has ended, which was not ordered; it will be started again.
    Ended(Daemon, ExitStatus),
    /// A daemon could not be started; it will be tried again.
    NotStarted(Daemon, &'a io::Error),
    /// What is still stale will not come again: routes, BFD sessions.
    Settled,
}

/// FRR that runs.
#[derive(Debug)]
pub struct Running {
    setup: Setup,
    /// It is dropped before the processes, which are waited for then.
    house: House,
    supervision: Supervision,
    daemons: BTreeMap<Daemon, Process>,
    load: Option<Process>,
}

/// Process with its output.
#[derive(Debug)]
struct Process {
    child: Child,
    stdout: Option<Lines<ChildStdout>>,
    stderr: Option<Lines<ChildStderr>>,
}

impl Running {
    /// Makes the house in a network namespace, and writes the configuration. The daemons are started by the first
    /// [`Running::turn`].
    ///
    /// # Errors
    /// The house cannot be made, or a file in it cannot be written.
    pub fn new(setup: Setup, network: OwnedFd, content: &Content, text: &str) -> Result<Self, NoHouse> {
        let house = House::new(network, setup.folders)?;
        let supervision = Supervision::new(content.daemons());
        let running = Self { setup, house, supervision, daemons: BTreeMap::new(), load: None };
        running.write(text).map_err(|why| NoHouse::new("write the configuration", why))?;
        Ok(running)
    }

    /// Takes a changed configuration, which needs the same daemons: lines are added and changed; those that are gone stay until
    /// a restart.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn reload(&mut self, text: &str) -> io::Result<()> {
        self.write(text)?;
        self.supervision.reload();
        Ok(())
    }

    /// Does what is due at `now`, in milliseconds, and passes on what was heard.
    pub fn turn(&mut self, now: u64, tell: &mut dyn FnMut(Heard<'_>)) {
        self.hear(now, tell);
        self.look(now);
        for _ in 0..TURNS {
            let acts = self.supervision.turn(now);
            if acts.is_empty() {
                return;
            }
            acts.into_iter().for_each(|act| self.carry_out(act, now, tell));
        }
    }

    /// Time of the next turn, in milliseconds, unless one of the descriptors is readable before.
    pub fn due(&self, now: u64) -> Option<u64> {
        let looks = self.load.is_some() || self.supervision.silent().next().is_some();
        self.supervision.due().into_iter().chain(looks.then_some(now + LOOK)).min()
    }

    /// Descriptors to wait for.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.daemons.values().chain(&self.load).flat_map(Process::descriptors)
    }

    /// Ends all daemons, in turns to come: see [`Running::is_stopped`].
    pub const fn stop(&mut self) {
        self.supervision.stop();
    }

    /// Returns true if all daemons have ended after [`Running::stop`]. Dropping ends them at once.
    pub fn is_stopped(&self) -> bool {
        self.supervision.is_stopped()
    }

    /// Condition of the control plane.
    pub fn health(&self) -> Health {
        self.supervision.health()
    }

    /// Number of times that a daemon was started again.
    pub fn restarts(&self, daemon: Daemon) -> u64 {
        self.supervision.restarts(daemon)
    }

    /// Process number of a daemon, if it runs.
    pub fn process(&self, daemon: Daemon) -> Option<u32> {
        self.daemons.get(&daemon).map(|process| process.child.id())
    }

    /// Connects to bfdd as the data plane that keeps its sessions ([`Options::bfd`]).
    ///
    /// # Errors
    /// bfdd does not listen yet, or the house has ended.
    pub fn connect_to_bfd(&self) -> io::Result<UnixStream> {
        let socket = self.setup.layout.data_plane_of_bfd();
        self.house.within(move || UnixStream::connect(socket))?
    }

    /// The house, for questions and shells.
    pub const fn house(&self) -> &House {
        &self.house
    }

    /// Command line of `vtysh`, to be started inside.
    pub fn shell(&self) -> CommandLine {
        self.setup.programs.shell(&self.setup.layout)
    }

    /// Command line of `vtysh` that asks a question, to be started inside.
    pub fn question(&self, question: &str) -> CommandLine {
        self.setup.programs.ask(&self.setup.layout, question)
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let (layout, owner) = (self.setup.layout.clone(), self.setup.owner);
        let text = self.setup.options.preamble() + text;
        self.house.within(move || layout.write(&text, owner))?
    }

    /// Reads what the processes have said, and finds those that have ended.
    fn hear(&mut self, now: u64, tell: &mut dyn FnMut(Heard<'_>)) {
        for (daemon, process) in &mut self.daemons {
            process.read(&mut |line| tell(Heard::Line(*daemon, line)));
        }
        let ended: Vec<(Daemon, ExitStatus)> = self
            .daemons
            .iter_mut()
            .filter_map(|(daemon, process)| Some((*daemon, process.child.try_wait().ok()??)))
            .collect();
        for (daemon, status) in ended {
            if let Some(mut process) = self.daemons.remove(&daemon) {
                // What it wrote between the two.
                process.read(&mut |line| tell(Heard::Line(daemon, line)));
            }
            if self.supervision.health() != Health::Stopped {
                tell(Heard::Ended(daemon, status));
            }
            self.supervision.take(News::Ended(daemon), now);
        }
        self.hear_load(now, tell);
    }

    fn hear_load(&mut self, now: u64, tell: &mut dyn FnMut(Heard<'_>)) {
        let Some(load) = &mut self.load else { return };
        load.read(&mut |line| tell(Heard::Vtysh(line)));
        if let Ok(Some(status)) = load.child.try_wait() {
            // What it wrote between the two.
            load.read(&mut |line| tell(Heard::Vtysh(line)));
            self.load = None;
            tell(Heard::Loaded(status.success()));
            self.supervision.take(News::Loaded { well: status.success() }, now);
        }
    }

    /// Looks whether daemons that were started answer.
    fn look(&mut self, now: u64) {
        let silent: Vec<Daemon> = self.supervision.silent().collect();
        for daemon in silent {
            let socket = self.setup.layout.vty(daemon);
            let answers = self.house.within(move || answers(&socket));
            if answers.unwrap_or(false) {
                self.supervision.take(News::Answers(daemon), now);
            }
        }
    }

    fn carry_out(&mut self, act: Act, now: u64, tell: &mut dyn FnMut(Heard<'_>)) {
        match act {
            Act::Start(daemon) => {
                if let Err(error) = self.start(daemon) {
                    tell(Heard::NotStarted(daemon, &error));
                    self.supervision.take(News::Ended(daemon), now);
                }
            }
            Act::Load(only) => {
                let line = self.setup.programs.load(&self.setup.layout, only);
                match self.house.start(&line) {
                    Ok(child) => self.load = Some(Process::new(child)),
                    Err(error) => {
                        tell(Heard::Vtysh(&error.to_string()));
                        self.supervision.take(News::Loaded { well: false }, now);
                    }
                }
            }
            Act::KillLoad => self.load.iter().for_each(|load| load.signal(Signal::KILL)),
            Act::Terminate(daemon) => self.signal(daemon, Signal::TERM),
            Act::Kill(daemon) => self.signal(daemon, Signal::KILL),
            Act::Settled => tell(Heard::Settled),
        }
    }

    fn start(&mut self, daemon: Daemon) -> io::Result<()> {
        let layout = self.setup.layout.clone();
        self.house.within(move || layout.forget(daemon))??;
        let line = self.setup.programs.start(daemon, &self.setup.layout, self.setup.options);
        let child = self.house.start(&line)?;
        self.daemons.insert(daemon, Process::new(child));
        Ok(())
    }

    fn signal(&self, daemon: Daemon, signal: Signal) {
        if let Some(process) = self.daemons.get(&daemon) {
            process.signal(signal);
        }
    }
}

/// Returns true if a socket takes connections. One whose queue is full belongs to a daemon that hangs.
fn answers(socket: &Path) -> bool {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let Ok(ours) = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None) else { return false };
    SocketAddrUnix::new(socket).is_ok_and(|address| connect(&ours, &address).is_ok())
}

impl Process {
    fn new(mut child: Child) -> Self {
        let (stdout, stderr) = (child.stdout.take().map(Lines::new), child.stderr.take().map(Lines::new));
        Self { child, stdout, stderr }
    }

    fn read(&mut self, tell: &mut dyn FnMut(&str)) {
        if let Some(stdout) = &mut self.stdout {
            stdout.read(tell);
        }
        if let Some(stderr) = &mut self.stderr {
            stderr.read(tell);
        }
    }

    /// Sends a signal. The process was not waited for yet: its number is its own.
    fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }

    fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let stdout = self.stdout.as_ref().and_then(Lines::pipe).map(AsFd::as_fd);
        let stderr = self.stderr.as_ref().and_then(Lines::pipe).map(AsFd::as_fd);
        stdout.into_iter().chain(stderr)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests;
