//! Kernel routers in the supervisor: changes are carried out or refused, routers are checked and repaired, and the data plane
//! does not know them.

use std::time::Duration;

use api::{Answer, Client, Counters, Request, RouterStatus, RunStatus, State};
use link::ToPlane;

use super::stage::{Scripted, Stage};

const SECOND: Duration = Duration::from_secs(1);

/// A kernel router, and a router that is a process.
const BOTH: &str = "[switch.lan]\n[[router]]\nname = \"edge\"\nengine = \"kernel\"\n\
    [[router.nic]]\nname = \"wan\"\nattach = \"veth:rr-wan\"\naddress = \"192.0.2.1/24\"\n\
    [[router]]\nname = \"core\"\nengine = \"process\"\n\
    [[router.nic]]\nname = \"lan\"\nattach = \"switch:lan\"\naddress = \"198.51.100.1/24\"\n";

fn name() -> String {
    "edge".to_owned()
}

fn set(key: &str, value: &str) -> Request {
    Request::Set { router: name(), key: key.to_owned(), value: value.to_owned() }
}

fn done(client: &mut Client) -> String {
    match client.next_answer() {
        Ok(Answer::Done { message }) => message,
        other => panic!("{other:?}"),
    }
}

/// Waits until the last call to the stand-in is `last` and its result was handled. Returns the calls since the last time.
fn until(stage: &mut Stage, last: &str) -> Vec<String> {
    stage.until(|stage| stage.kernel.done().last().is_some_and(|done| done == last));
    // Wait until the supervisor has handled the result.
    stage.until(|stage| !stage.supervisor().changes.is_busy());
    let done = stage.kernel.done();
    stage.kernel.forget();
    done
}

fn up() -> Stage {
    let mut stage = Stage::up(BOTH);
    assert_eq!(until(&mut stage, "make edge"), ["make edge"]);
    stage
}

#[test]
fn no_data_plane_is_told_of_it() {
    let stage = up();
    let told = std::iter::from_fn(|| stage.plane().told()).find_map(|told| match told {
        ToPlane::Start(orders) => Some(orders.plan),
        _ => None,
    });
    let names: Vec<String> =
        told.expect("it is told").routers.into_iter().map(|router| router.name).collect();
    assert_eq!(names, ["core"]);
}

#[test]
fn what_is_set_of_it_the_kernel_alone_follows() {
    let mut stage = up();
    let mut client = stage.client(&set("rp_filter", "strict"));
    assert_eq!(until(&mut stage, "make edge"), ["make edge"]);
    assert_eq!(done(&mut client), "router edge: rp_filter = strict (no packet is lost)");
    assert!(stage.plane().is_to_become().is_none());
    let mut client = stage.client(&set("wan.link", "down"));
    until(&mut stage, "make edge");
    assert_eq!(done(&mut client), "router edge: link of wan = down; what arrives while it is down is lost");
    assert!(!stage.kernel.state()["edge"].interfaces[0].up);
}

#[test]
fn its_limit_is_set_while_it_forwards() {
    let mut stage = up();
    let mut client = stage.client(&set("limit", "2kpps"));
    assert_eq!(until(&mut stage, "make edge"), ["make edge"]);
    assert_eq!(done(&mut client), "router edge: limit = 2kpps (no packet is lost)");
}

#[test]
fn its_drops_are_shown_by_reason_if_its_file_asks() {
    let mut stage = up();
    stage.kernel.drop_packets("wan", "no_socket", 5);
    stage.kernel.drop_packets("wan", "neigh_failed", 2);
    let drops = |stage: &mut Stage| {
        let mut client = stage.client(&Request::Show { router: name() });
        let Ok(Answer::Show(shown)) = client.next_answer() else { panic!("not shown") };
        shown.nics[0].settings.get("drops").map(ToString::to_string)
    };
    stage.until(|stage| stage.supervisor().kernel_is_seen("edge"));
    assert_eq!(drops(&mut stage), None, "nothing is counted by default");
    for (value, told) in [("true", Some("neigh_failed 2, no_socket 5")), ("false", None)] {
        let mut client = stage.client(&set("drop_reasons", value));
        assert_eq!(until(&mut stage, "make edge"), ["make edge"]);
        assert_eq!(done(&mut client), format!("router edge: drop_reasons = {value} (no packet is lost)"));
        stage.after(SECOND).expect("it goes on");
        stage.until(|stage| stage.supervisor().kernels_rest());
        stage.turn().expect("it goes on");
        assert_eq!(drops(&mut stage).as_deref(), told);
    }
}

#[test]
fn packets_are_followed_by_whoever_works_at_it() {
    let mut stage = up();
    let trace = |nic: &str, timeout_ms| {
        let (router, nic) = (name(), nic.to_owned());
        Request::Trace { router, nic, count: 1, timeout_ms, filter: None }
    };
    let refused = |mut client: Client| client.next_answer().expect_err("it is refused").to_string();
    let client = stage.client(&trace("wan", 1000));
    stage.until(|stage| stage.kernel.done().contains(&"follow NIC 0 of edge".to_owned()));
    stage.until(|stage| stage.supervisor().kernels_rest());
    assert_eq!(refused(client), "no packet comes here");
    let client = stage.client(&trace("lan", 1000));
    assert_eq!(refused(client), "router edge has no NIC \"lan\"; NICs: wan");
    let client = stage.client(&trace("wan", 0));
    assert_eq!(refused(client), "a trace runs for 1 to 600000 ms, not 0");
}

#[test]
fn what_the_kernel_refuses_is_not_so() {
    let mut stage = up();
    stage.kernel.refuse("make edge");
    let mut client = stage.client(&set("forwarding", "false"));
    stage.until(|stage| !stage.supervisor().changes.is_busy());
    assert_eq!(client.next_answer().expect_err("it is refused").to_string(), "make edge is refused");
    assert!(stage.plan().routers[0].kernel.expect("it is").forwarding);
}

#[test]
fn what_the_kernel_refuses_the_data_plane_takes_back() {
    let mut stage = up();
    stage.kernel.refuse("make edge");
    let file = BOTH.replace("192.0.2.1", "192.0.2.2").replace("198.51.100.1", "198.51.100.2");
    let request = Request::Apply { file: "y.toml".to_owned(), text: file, dry_run: false };
    let mut client = stage.client(&request);
    stage.until(|stage| stage.plane().follows().is_some());
    stage.until(|stage| stage.plane().follows().is_some_and(|plan| plan == stage.plan().of_data_plane()));
    stage.until(|stage| !stage.supervisor().changes.is_busy());
    assert!(client.next_answer().expect_err("it is refused").to_string().contains("make edge is refused"));
}

#[test]
fn it_is_stopped_and_started_and_started_anew() {
    let mut stage = up();
    let mut client = stage.client(&Request::Stop { name: name() });
    assert_eq!(until(&mut stage, "end edge"), ["end edge"]);
    assert_eq!(done(&mut client), "router edge is stopped");
    let mut client = stage.client(&Request::Start { router: name() });
    assert_eq!(until(&mut stage, "make edge"), ["make edge"]);
    assert_eq!(done(&mut client), "router edge runs");
    let mut client = stage.client(&Request::Restart { router: name() });
    assert_eq!(until(&mut stage, "restart edge"), ["restart edge"]);
    stage.until(|stage| !stage.lines("it was restarted").is_empty());
    assert_eq!(done(&mut client), "router edge was started anew");
}

/// A data plane's answer to how its routers are.
fn status_of(routers: Vec<RouterStatus>) -> RunStatus {
    RunStatus { routers, ..RunStatus::default() }
}

#[test]
fn it_is_shown_beside_the_others() {
    let mut stage = up();
    let mut client = stage.client(&Request::Show { router: name() });
    let Ok(Answer::Show(shown)) = client.next_answer() else { panic!("not shown") };
    assert_eq!((shown.status.engine.as_str(), shown.status.state), ("kernel", State::Running));
    assert_eq!(shown.nics[0].addresses, ["192.0.2.1/24"]);
    let mut client = stage.client(&Request::Ps {});
    let plane = stage.plane();
    let id = plane.asked(|request| matches!(request, Request::Ps {})).expect("it is asked");
    plane.answer(id, Ok(Answer::Ps(status_of(Vec::new()))));
    stage.turn().expect("it goes on");
    let Ok(Answer::Ps(status)) = client.next_answer() else { panic!("no status") };
    let names: Vec<&str> = status.routers.iter().map(|router| router.name.as_str()).collect();
    assert_eq!(names, ["edge"], "and what the data plane says of its own");
}

#[test]
fn what_it_has_counted_is_told_with_what_the_data_plane_has() {
    let mut stage = up();
    stage.kernel.count("edge", "wan.rx.frames", 7);
    stage.kernel.count("edge", "ip.forwarded", 5);
    let mut client = stage.client(&Request::Counters { router: None });
    let plane = stage.plane();
    let id = plane.asked(|request| matches!(request, Request::Counters { .. })).expect("it is asked");
    let counters = [("core.lan.rx.frames".to_owned(), 3), ("edge.wan.rx.frames".to_owned(), 0)].into();
    plane.answer(id, Ok(Answer::Counters(Counters { counters, ..Counters::default() })));
    stage.until(|stage| stage.supervisor().request_router.merged_replies.is_empty());
    let Ok(Answer::Counters(told)) = client.next_answer() else { panic!("no counters") };
    let get = |name: &str| told.counters.get(name).copied();
    assert_eq!(
        ["core.lan.rx.frames", "edge.wan.rx.frames", "edge.ip.forwarded"].map(get),
        [Some(3), Some(7), Some(5)]
    );
}

#[test]
fn an_interface_that_is_gone_is_made_again() {
    let mut stage = up();
    stage.until(|stage| stage.supervisor().kernel_is_seen("edge"));
    stage.kernel.lose("edge.wan");
    stage.after(SECOND).expect("it goes on");
    assert_eq!(until(&mut stage, "repair edge"), ["repair edge"]);
    stage.until(|stage| !stage.lines("its deleted interfaces were created again").is_empty());
    stage.after(SECOND).expect("it goes on");
    stage.after(SECOND).expect("it goes on");
    assert_eq!(stage.kernel.done(), [""; 0], "nothing is missing any more");
}

#[test]
fn one_that_is_to_end_is_not_repaired_after_it_has_ended() {
    let mut stage = up();
    stage.until(|stage| stage.supervisor().kernel_is_seen("edge"));
    stage.until(|stage| stage.supervisor().kernels_rest());
    stage.kernel.lose("edge.wan");
    // The turn that begins the check reads the request as well: the change waits for the end of the check.
    stage.now += SECOND;
    let mut client = stage.client(&Request::Stop { name: name() });
    assert_eq!(until(&mut stage, "end edge"), ["end edge"]);
    assert_eq!(done(&mut client), "router edge is stopped");
    stage.until(|stage| stage.supervisor().kernels_rest());
    assert_eq!(stage.kernel.running(), [""; 0]);
}

#[test]
fn a_name_that_is_removed_is_given_again() {
    let mut stage = up();
    stage.until(|stage| stage.supervisor().kernel_is_seen("edge"));
    stage.kernel.unname("edge");
    stage.after(SECOND).expect("it goes on");
    assert_eq!(until(&mut stage, "repair edge"), ["repair edge"]);
    assert_eq!(stage.lines("its name in /run/netns was removed").len(), 1);
    stage.until(|stage| !stage.lines("it has its name in /run/netns again").is_empty());
    assert!(stage.lines("created again").is_empty(), "its interfaces were not touched");
}

#[test]
fn a_cable_that_is_pulled_out_is_told_of() {
    let mut stage = up();
    stage.until(|stage| stage.supervisor().kernel_is_seen("edge"));
    for (is_in, line) in [(false, "NIC wan: link down"), (true, "NIC wan: link up")] {
        stage.kernel.plug("edge.wan", is_in);
        stage.after(SECOND).expect("it goes on");
        stage.until(|stage| stage.lines(line).len() == 1);
    }
}

#[test]
fn an_address_that_another_station_has_is_told_once() {
    let mut stage = up();
    stage.until(|stage| stage.supervisor().kernel_is_seen("edge"));
    stage.kernel.duplicate("wan", "2001:db8::1".parse().expect("an address"));
    let line = "NIC wan: another station has the address 2001:db8::1, which is not used here";
    for _ in 0..3 {
        stage.after(SECOND).expect("it goes on");
        stage.until(|stage| stage.lines(line).len() == 1);
    }
}

#[test]
fn one_that_cannot_be_made_anew_is_tried_again() {
    let mut stage = up();
    stage.kernel.refuse("restart edge");
    stage.kernel.refuse("make edge");
    let mut client = stage.client(&Request::Restart { router: name() });
    stage.until(|stage| !stage.lines("restart edge is refused").is_empty());
    assert!(client.next_answer().is_err());
    let state = |stage: &mut Stage| {
        let router = stage.plan().routers[0].clone();
        let now = stage.now;
        stage.supervisor().kernel_status(&router, now).state
    };
    assert_eq!(state(&mut stage), State::Waiting);
    stage.kernel.relent();
    stage.after(SECOND).expect("it goes on");
    stage.until(|stage| !stage.lines("its namespace was created again").is_empty());
    assert_eq!(state(&mut stage), State::Running);
}

#[test]
fn one_that_has_ended_is_told_of_once_and_made_again_unless_its_file_says_never() {
    for (restart, again) in [("always", &["make edge"][..]), ("never", &[][..])] {
        let key = format!("engine = \"kernel\"\nrestart = \"{restart}\"\n");
        let mut stage = Stage::up(&BOTH.replace("engine = \"kernel\"\n", &key));
        assert_eq!(until(&mut stage, "make edge"), ["make edge"]);
        stage.until(|stage| stage.supervisor().kernel_is_seen("edge"));
        stage.kernel.die("edge");
        for _ in 0..3 {
            stage.after(SECOND).expect("it goes on");
            stage.until(|stage| stage.lines("it is not there").len() == 1);
            stage.until(|stage| stage.supervisor().kernels_rest());
            stage.turn().expect("it goes on");
        }
        assert_eq!(stage.kernel.done(), again, "{restart}");
        let is_again = !again.is_empty();
        assert_eq!(stage.lines("its namespace was created again").len(), usize::from(is_again));
    }
}

#[test]
fn a_thread_that_dies_costs_the_change_and_nothing_else() {
    let mut stage = up();
    stage.until(|stage| stage.supervisor().kernel_is_seen("edge"));
    stage.kernel.panic_next();
    let mut client = stage.client(&set("forwarding", "false"));
    stage.until(|stage| !stage.supervisor().changes.is_busy());
    assert!(client.next_answer().expect_err("refused").to_string().contains("a bug of ringroad"));
    let mut client = stage.client(&set("forwarding", "false"));
    until(&mut stage, "make edge");
    assert!(done(&mut client).contains("forwarding = false"));
}

#[test]
fn it_goes_with_the_run() {
    let mut stage = up();
    let kernel = stage.kernel.clone();
    stage.plane().die();
    stage.finish();
    assert_eq!(kernel.running(), [""; 0]);
}

/// Two kernel routers behind a balancer.
const BACK_ENDS: &str = "[[group]]\nname = \"core\"\nkind = \"multistage\"\nbalancer = \"vm\"\nbackends = 2\n\
    interconnect = \"bridge:br0\"\nengine = \"kernel\"\n\
    [[group.nic]]\nname = \"wan\"\nattach = \"tap:rr-wan\"\naddress = \"192.0.2.1/24\"\n\
    [[group.nic]]\nname = \"lan\"\nattach = \"tap:rr-lan\"\naddress = \"198.51.100.1/24\"\n";

/// The data plane, which tells how members are when it is asked.
struct Members {
    plane: Scripted,
    /// The last question that it has not answered.
    question: Option<u64>,
    /// Members that it was told to give no frames, or frames again.
    drains: Vec<(String, bool)>,
}

impl Members {
    fn listen(&mut self) {
        for told in std::iter::from_fn(|| self.plane.told()) {
            match told {
                ToPlane::Ask { id, request: Request::Ps {} } => self.question = Some(id),
                ToPlane::Drain { router, is_on } => self.drains.push((router, is_on)),
                _ => {}
            }
        }
    }

    /// Members that it was told of since the last call.
    fn drains(&mut self) -> Vec<(String, bool)> {
        self.listen();
        std::mem::take(&mut self.drains)
    }

    /// Tells that they are in these states, once it is asked.
    fn tell(&mut self, stage: &mut Stage, states: [&str; 2]) {
        // Within a second of a question that it has not answered, such as that for counters, it is not late.
        stage.after(Duration::from_millis(100)).expect("it goes on");
        stage.turn().expect("it goes on");
        self.listen();
        let id = self.question.take().expect("it is asked");
        let member = |(number, state): (usize, &str)| RouterStatus {
            name: format!("core_{number}"),
            engine: "kernel".to_owned(),
            state: State::Running,
            since_ms: 0,
            restarts: 0,
            reason: None,
            pid: None,
            member: Some(state.to_owned()),
            threads: Vec::new(),
        };
        let status = status_of(states.into_iter().enumerate().map(member).collect());
        self.plane.answer(id, Ok(Answer::Ps(status)));
        stage.turn().expect("it goes on");
    }
}

#[test]
fn back_ends_are_restarted_one_after_the_other_and_get_frames_when_that_is_done() {
    let mut stage = Stage::up(BACK_ENDS);
    stage.until(|stage| stage.kernel.running().len() == 2);
    let mut members = Members { plane: stage.planes().remove(0), question: None, drains: Vec::new() };
    let _client = stage.client(&Request::Restart { router: "core".to_owned() });
    members.tell(&mut stage, ["serving", "serving"]);
    assert_eq!(members.drains(), [("core_0".to_owned(), true)]);
    members.tell(&mut stage, ["leaving", "serving"]);
    let mut told = Vec::new();
    stage.until(|_| {
        told.extend(members.drains());
        !told.is_empty()
    });
    assert_eq!(told, [("core_0".to_owned(), false)]);
    assert!(stage.kernel.done().contains(&"restart core_0".to_owned()), "{:?}", stage.kernel.done());
    for states in [["starting", "serving"], ["serving", "serving"], ["serving", "serving"]] {
        members.tell(&mut stage, states);
    }
    assert_eq!(members.drains(), [("core_1".to_owned(), true)]);
}
