//! FRR of a control plane: it follows what the file says, and what it says itself becomes events.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use frr::log::{self, Line};
use frr::{Configuration, Daemon, FOLDERS, Heard, Layout, Options, Owner, Programs, Running, Setup};
use netlink::News;
use netns::Namespace;
use rustix::fd::{AsFd, BorrowedFd};
use telemetry::Kind;

use super::virtual_links::VirtualLinks;

/// Pauses between attempts to start FRR, in milliseconds: the first, and the longest.
const PAUSE: [u64; 2] = [1_000, 30_000];
/// Most lines of the daemons that become events in a second: neighbours can cause any number of them.
const MOST_LINES: u32 = 200;
/// Period of that limit, in milliseconds.
const SPAN: u64 = 1_000;
/// User that the daemons become.
const PASSWD: &str = "/etc/passwd";

/// Takes events.
pub(super) type Tell<'t> = &'t mut dyn FnMut(Kind, String);

/// FRR of a router, if the file asks for it.
pub(super) struct Daemons {
    router: String,
    namespace: Namespace,
    options: Options,
    links: VirtualLinks,
    running: Option<Running>,
    /// What runs.
    configuration: Option<Configuration>,
    /// What is to run.
    path: Option<PathBuf>,
    retry: Option<Retry>,
    lines: LineBudget,
}

/// Lines that became events in the present period, and the number of those that did not because there were too many.
#[derive(Debug, Default)]
struct LineBudget {
    since: u64,
    count: u32,
    lost: u64,
}

/// The next attempt.
struct Retry {
    at: u64,
    pause: u64,
}

impl Daemons {
    pub(super) fn new(router: String, namespace: Namespace, options: Options) -> Self {
        let links = VirtualLinks::default();
        let (running, configuration, path, retry) = (None, None, None, None);
        let lines = LineBudget::default();
        Self { router, namespace, options, links, running, configuration, path, retry, lines }
    }

    /// Runs what a file says by now; `None`: nothing. The time is in milliseconds.
    pub(super) fn follow(&mut self, path: Option<PathBuf>, now: u64, tell: Tell<'_>) {
        (self.path, self.retry) = (path, None);
        self.start(now, tell);
    }

    /// Does what is due. Returns true if what zebra has not sent again by now will not come any more.
    pub(super) fn turn(&mut self, now: u64, tell: Tell<'_>) -> bool {
        if self.retry.as_ref().is_some_and(|retry| retry.at <= now) {
            self.start(now, tell);
        }
        let Self { running, lines, .. } = self;
        if let Some(lost) = lines.turn(now) {
            tell(Kind::Notice, format!("{lost} lines of FRR came too fast, and are not shown"));
        }
        let mut is_settled = false;
        if let Some(running) = running {
            running.turn(now, &mut |heard| {
                is_settled |= matches!(heard, Heard::Settled);
                pass_on(heard, lines, tell);
            });
        }
        is_settled
    }

    /// Takes changes of the namespace: an interface of VRRP gets its addresses once vrrpd has it, and is made again if it has gone.
    pub(super) fn watch_links(&mut self, news: &[News], now: u64) {
        if self.links.watch(&self.namespace, news) && self.retry.is_none() && self.path.is_some() {
            // Half of it: the attempt is the first one, of which a failure is told.
            self.retry = Some(Retry { at: now + PAUSE[0], pause: PAUSE[0] / 2 });
        }
    }

    /// Milliseconds at which there is something to do.
    pub(super) fn due(&self, now: u64) -> Option<u64> {
        let running = self.running.as_ref().and_then(|running| running.due(now));
        running.into_iter().chain(self.retry.as_ref().map(|retry| retry.at)).min()
    }

    /// Descriptors to wait for.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.running.iter().flat_map(Running::descriptors)
    }

    /// Ends all daemons in order, in turns to come.
    pub(super) fn stop(&mut self) {
        (self.path, self.retry) = (None, None);
        self.running.iter_mut().for_each(Running::stop);
    }

    /// Returns true if none runs after [`Self::stop`].
    pub(super) fn is_stopped(&self) -> bool {
        self.running.as_ref().is_none_or(Running::is_stopped)
    }

    /// FRR that runs, with its programs and folders.
    pub(super) fn running(&self) -> Option<&Running> {
        self.running.as_ref()
    }

    /// What is to run.
    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns true if the file has FRR.
    pub(super) const fn is_wanted(&self) -> bool {
        self.path.is_some()
    }

    /// Returns true if what runs has BFD.
    pub(super) fn has_bfd(&self) -> bool {
        let mut daemons = self.configuration.iter().flat_map(|current| current.content.daemons());
        daemons.any(|daemon| daemon == Daemon::Bfd)
    }

    fn start(&mut self, now: u64, tell: Tell<'_>) {
        let pause = self.retry.take().map_or(PAUSE[0], |retry| (retry.pause * 2).min(PAUSE[1]));
        if let Err(error) = self.run(tell) {
            // Told once; later attempts are silent.
            if pause == PAUSE[0] {
                tell(
                    Kind::Notice,
                    format!("FRR does not run as its file says: {error:#}; it is tried again"),
                );
            }
            self.retry = Some(Retry { at: now + pause, pause });
        }
    }

    /// Runs what is to run. Where FRR runs already it goes on if it can.
    fn run(&mut self, tell: Tell<'_>) -> Result<()> {
        let Some(path) = self.path.clone() else {
            (self.running, self.configuration) = (None, None);
            return self.links.follow(&self.namespace, &[]);
        };
        let wanted = Configuration::load(&path)?;
        // vrrpd looks for them when it reads its configuration. Without them all else runs.
        let links = self.links.follow(&self.namespace, wanted.content.virtual_routers());
        match (&mut self.running, &self.configuration) {
            (Some(_), Some(current)) if *current == wanted => return links,
            (Some(running), Some(current)) if only_adds(current, &wanted) => {
                running.reload(&wanted.text).context("writing its configuration")?;
            }
            _ => {
                // Of two FRRs in one namespace the later one would fail. Routes stay in the kernel meanwhile.
                self.running = None;
                wanted
                    .content
                    .hints()
                    .iter()
                    .for_each(|hint| tell(Kind::ControlPlane, hint.text().to_owned()));
                self.running = Some(started((&self.router, self.options), &self.namespace, &wanted)?);
            }
        }
        self.configuration = Some(wanted);
        links
    }
}

impl LineBudget {
    /// Begins the next period if it is time; the number of lines lost in the last one, if there were any.
    fn turn(&mut self, now: u64) -> Option<u64> {
        if now < self.since.saturating_add(SPAN) {
            return None;
        }
        let last = std::mem::replace(self, Self { since: now, ..Self::default() });
        (last.lost > 0).then_some(last.lost)
    }

    /// Counts a line; returns true if it may become an event.
    fn admits(&mut self) -> bool {
        let is_admitted = self.count < MOST_LINES;
        self.count += u32::from(is_admitted);
        self.lost += u64::from(!is_admitted);
        is_admitted
    }
}

/// Returns true if vtysh can lead from one configuration to the other: it can only add lines.
fn only_adds(from: &Configuration, to: &Configuration) -> bool {
    let mut lines = to.text.lines();
    let is_kept = |line: &str| lines.any(|other| other == line);
    from.content.daemons().eq(to.content.daemons()) && from.text.lines().all(is_kept)
}

fn started(
    (router, options): (&str, Options),
    namespace: &Namespace,
    configuration: &Configuration,
) -> Result<Running> {
    let root = Path::new("/");
    let setup = Setup {
        programs: Programs::find(root, configuration.content.daemons())?,
        layout: Layout::new(root, router).context("its name cannot be one of FRR's")?,
        folders: &FOLDERS,
        options,
        owner: std::fs::read_to_string(PASSWD).ok().as_deref().and_then(Owner::find),
    };
    let network = namespace.as_fd().try_clone_to_owned()?;
    Ok(Running::new(setup, network, &configuration.content, &configuration.text)?)
}

/// Tells of what was heard; of lines, as many as the budget admits.
fn pass_on(heard: Heard<'_>, lines: &mut LineBudget, tell: Tell<'_>) {
    let is_line = matches!(heard, Heard::Line(..) | Heard::Vtysh(_));
    if let Some((kind, text)) = told(heard)
        && (!is_line || lines.admits())
    {
        tell(kind, text);
    }
}

/// What is told of what was heard.
fn told(heard: Heard<'_>) -> Option<(Kind, String)> {
    Some(match heard {
        Heard::Line(daemon, line) => match log::read(line) {
            Line::Adjacency { protocol, peer, is_up, message } => {
                let state = if is_up { "up" } else { "down" };
                (Kind::ControlPlane, format!("{protocol}: {peer} is {state}: {message}"))
            }
            Line::VirtualRouter { message } => (Kind::ControlPlane, format!("VRRP: {message}")),
            Line::Error { code, message, .. } => {
                (Kind::ControlPlane, format!("{daemon}, error {code}: {message}"))
            }
            Line::Other { .. } => return None,
        },
        Heard::Vtysh(line) => (Kind::Notice, format!("FRR refuses a line: {}", log::refusal(line)?)),
        Heard::Loaded(true) => (Kind::ControlPlane, "FRR has loaded its configuration".to_owned()),
        Heard::Loaded(false) => {
            (Kind::Notice, "FRR has not accepted all of its configuration; the rest is in force".to_owned())
        }
        Heard::Ended(daemon, status) => {
            (Kind::Notice, format!("{daemon} has ended ({status}); it is started again, routes stay"))
        }
        Heard::NotStarted(daemon, error) => {
            (Kind::Notice, format!("{daemon} cannot be started: {error}; it is tried again"))
        }
        Heard::Settled => return None,
    })
}

#[cfg(test)]
mod tests {
    use frr::Content;

    use super::*;

    fn configuration(text: &str) -> Configuration {
        Configuration { content: Content::read(text).expect("a good file"), text: text.to_owned() }
    }

    #[test]
    fn lines_can_be_added_to_what_runs_and_nothing_else() {
        let from = configuration("router ospf\n network 10.0.0.0/8 area 0\n");
        let more = configuration("router ospf\n ospf router-id 1.1.1.1\n network 10.0.0.0/8 area 0\n");
        assert!(only_adds(&from, &more));
        assert!(!only_adds(&more, &from), "a line is gone");
        let bgp = configuration("router ospf\n network 10.0.0.0/8 area 0\nrouter bgp 65001\n");
        assert!(!only_adds(&from, &bgp), "it takes another daemon");
        let other = configuration(" network 10.0.0.0/8 area 0\nrouter ospf\n");
        assert!(!only_adds(&from, &other), "a line has moved");
    }

    #[test]
    fn lines_that_come_too_fast_are_counted_and_hold_nothing_else_up() {
        let (mut lines, mut events) = (LineBudget::default(), Vec::new());
        let mut hear = |lines: &mut LineBudget, heard: Heard<'_>| {
            pass_on(heard, lines, &mut |kind, text| events.push((kind, text)));
            events.len()
        };
        let line = "2026/11/26 05:36:05 OSPF: [M59KS-A3ZXZ][EC 134217741] a packet that is none";
        let other = "2026/11/26 05:36:05 OSPF: [M59KS-A3ZXZ] a word of no interest";
        hear(&mut lines, Heard::Line(Daemon::Ospf, other));
        let most = MOST_LINES as usize;
        for count in 1..=most + 3 {
            assert_eq!(hear(&mut lines, Heard::Line(Daemon::Ospf, line)), count.min(most));
        }
        assert_eq!(hear(&mut lines, Heard::Loaded(true)), most + 1, "it is no line");
        assert_eq!(lines.turn(SPAN - 1), None);
        assert_eq!(lines.turn(SPAN), Some(3));
        assert_eq!(hear(&mut lines, Heard::Line(Daemon::Ospf, line)), most + 2);
        assert_eq!(lines.turn(2 * SPAN), None, "none was lost");
    }

    #[test]
    fn what_an_operator_should_know_becomes_an_event() {
        let line = "2026/11/26 05:36:05 BGP: [M59KS-A3ZXZ][EC 33554499] %ADJCHANGE: neighbor 192.0.2.2(edge2) in vrf \
                    default Up";
        let (kind, text) = told(Heard::Line(Daemon::Bgp, line)).expect("an event");
        assert_eq!(kind, Kind::ControlPlane);
        assert!(text.starts_with("BGP: 192.0.2.2 is up: %ADJCHANGE"), "{text}");
        let (kind, text) = told(Heard::Vtysh("line 5: % Unknown command[4]: routr bgp 1")).expect("an event");
        assert_eq!(
            (kind, &*text),
            (Kind::Notice, "FRR refuses a line: line 5: % Unknown command[4]: routr bgp 1")
        );
        assert_eq!(told(Heard::Vtysh("[1234|zebra] done")), None);
        assert_eq!(told(Heard::Settled), None);
        assert_eq!(told(Heard::Loaded(false)).map(|(kind, _)| kind), Some(Kind::Notice));
    }
}
